// result<T>: a value or an error, with std::expected's names so that a C++23 alias can replace it.
// Propagate with plain `if (!r) return r.error();`: control flow stays visible.
#pragma once

#include "schema/ensure.hpp"
#include "schema/error.hpp"

#include <fmt/format.h>

#include <utility>
#include <variant>

namespace baton {

template <class T>
class [[nodiscard]] result {
public:
  using value_type = T;

  result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  result(baton::error e) : state_(std::in_place_index<1>, std::move(e)) {}

  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  T& value() & {
    require_value();
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    require_value();
    return *std::get_if<0>(&state_);
  }
  T&& value() && {
    require_value();
    return std::move(*std::get_if<0>(&state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const baton::error& error() const& {
    ENSURE(!has_value(), "error() of a result that holds a value");
    return *std::get_if<1>(&state_);
  }
  baton::error&& error() && {
    ENSURE(!has_value(), "error() of a result that holds a value");
    return std::move(*std::get_if<1>(&state_));
  }

private:
  void require_value() const {
    ENSURE(has_value(), "value() of a result that holds the error '{}'",
           std::get_if<1>(&state_)->message);
  }
  std::variant<T, baton::error> state_;
};

template <>
class [[nodiscard]] result<void> {
public:
  using value_type = void;

  result() = default;
  result(baton::error e) : error_(std::move(e)), ok_(false) {}

  bool has_value() const noexcept { return ok_; }
  explicit operator bool() const noexcept { return ok_; }
  const baton::error& error() const {
    ENSURE(!ok_, "error() of a result that holds a value");
    return error_;
  }

private:
  baton::error error_;
  bool ok_ = true;
};

// fail(errc::bad_model_file, "tensor '{}' ends at {} of {} bytes", ...) -> error
template <class... Args>
error fail(errc code, fmt::format_string<Args...> text, Args&&... args) {
  return {code, fmt::format(text, std::forward<Args>(args)...), {}};
}
// fail_param(errc::invalid_value, "top_p", "top_p must be in (0, 1], not {}", v) -> error
template <class... Args>
error fail_param(errc code, std::string_view param, fmt::format_string<Args...> text,
                 Args&&... args) {
  return {code, fmt::format(text, std::forward<Args>(args)...), std::string(param)};
}

} // namespace baton
