// Fills any message with distinct values that are not the defaults, and lists its leaves. Both walk
// the struct's fields by reflection, so they include a new field of messages.hpp automatically. A
// codec without that field fails its test.
#pragma once

#include "schema/messages.hpp"

#include <boost/pfr.hpp>
#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

namespace baton::test {

class filler {
public:
  explicit filler(std::size_t prompt_form) : prompt_form_(prompt_form) {}

  template <class T>
  void operator()(T& to) {
    if constexpr (std::is_same_v<T, bool>)
      to = !to;
    else if constexpr (std::is_enum_v<T>)
      to = other(to);
    else if constexpr (std::is_floating_point_v<T>)
      to = static_cast<T>(++count_) + T{0.25};
    else if constexpr (std::is_integral_v<T>) // with bits above 32 where the type has them
      to = static_cast<T>(++count_ + (sizeof(T) == 8 ? std::uint64_t{3} << 40 : 0));
    else
      boost::pfr::for_each_field(to, [this](auto& field) { (*this)(field); });
  }
  void operator()(std::string& to) { to = fmt::format("text {}", ++count_); }
  void operator()(std::chrono::milliseconds& to) { to = std::chrono::milliseconds{++count_}; }
  void operator()(lease&) {}
  void operator()(shared_constraint& to) {
    constraint c;
    boost::pfr::for_each_field(c, [this](auto& field) { (*this)(field); });
    to = shared_constraint(std::move(c));
  }
  template <class Tag, class Rep>
  void operator()(strong_id<Tag, Rep>& to) {
    (*this)(to.value);
  }
  template <class T>
  void operator()(std::optional<T>& to) {
    (*this)(to.emplace());
  }
  template <class T>
  void operator()(std::vector<T>& to) {
    to.resize(2);
    for (auto& element : to)
      (*this)(element);
  }
  void operator()(prompt& to) {
    if (prompt_form_ == 0)
      (*this)(to.emplace<std::string>());
    else if (prompt_form_ == 1)
      (*this)(to.emplace<ids_prompt>());
    else
      (*this)(to.emplace<chat_prompt>());
  }
  // Two rows (vectors get two elements) of three.
  void operator()(payload& to) {
    auto owner = std::make_shared<std::array<float, 64>>();
    for (auto& value : *owner)
      (*this)(value);
    to = {owner, reinterpret_cast<const std::byte*>(owner->data()), 2 * 3 * sizeof(float)};
  }

private:
  static constraint_kind other(constraint_kind) { return constraint_kind::regex; }
  static call_format other(call_format) { return call_format::mistral; }
  static reasoning_format other(reasoning_format) { return reasoning_format::seed; }
  static errc other(errc) { return errc::quarantined; }
  static cancel_reason other(cancel_reason) { return cancel_reason::deadline; }
  static finish other(finish) { return finish::cancelled; }
  static pooling other(pooling) { return pooling::last; }
  static role other(role) { return role::shard; }
  static phase other(phase) { return phase::draining; }
  static restart_strategy other(restart_strategy) { return restart_strategy::rest_for_one; }
  static model_state other(model_state) { return model_state::unloading; }
  static model_order other(model_order) { return model_order::set_default; }
  static metric_kind other(metric_kind) { return metric_kind::gauge; }
  static special_tokens other(special_tokens) { return special_tokens::omitted; }
  static model_control other(model_control) { return model_control::clients; }

  std::size_t prompt_form_;
  std::uint32_t count_ = 0;
};

// Every value of a message, one a line, depth first.
class lister {
public:
  std::vector<std::string> leaves;

  template <class T>
  void operator()(const T& from) {
    if constexpr (std::is_enum_v<T>)
      leaves.push_back(fmt::format("enum {}", static_cast<int>(from)));
    else if constexpr (std::is_arithmetic_v<T>)
      leaves.push_back(fmt::format("{}", from));
    else
      boost::pfr::for_each_field(from, [this](const auto& field) { (*this)(field); });
  }
  void operator()(const std::string& from) { leaves.push_back("\"" + from + "\""); }
  void operator()(const std::chrono::milliseconds& from) {
    leaves.push_back(fmt::format("{} ms", from.count()));
  }
  void operator()(const lease&) {}
  void operator()(const shared_constraint& from) {
    leaves.push_back(from ? "some" : "none");
    if (from)
      boost::pfr::for_each_field(*from, [this](const auto& field) { (*this)(field); });
  }
  template <class Tag, class Rep>
  void operator()(const strong_id<Tag, Rep>& from) {
    (*this)(from.value);
  }
  template <class T>
  void operator()(const std::optional<T>& from) {
    leaves.push_back(from ? "some" : "none");
    if (from)
      (*this)(*from);
  }
  template <class T>
  void operator()(const std::vector<T>& from) {
    leaves.push_back(fmt::format("{} of", from.size()));
    for (const auto& element : from)
      (*this)(element);
  }
  void operator()(const prompt& from) {
    leaves.push_back(fmt::format("form {}", from.index()));
    std::visit([this](const auto& form) { (*this)(form); }, from);
  }
  void operator()(const payload& from) {
    leaves.push_back(fmt::format("{} bytes", from.size_bytes));
    for (std::size_t i = 0; i + sizeof(float) <= from.size_bytes; i += sizeof(float)) {
      float value = 0;
      std::memcpy(&value, from.data + i, sizeof value);
      leaves.push_back(fmt::format("{}", value));
    }
  }
};

template <class M>
M filled(std::size_t prompt_form = 0) {
  M m{};
  filler fill(prompt_form);
  fill(m);
  return m;
}

inline std::vector<std::string> leaves_of(const message& m) {
  lister list;
  std::visit([&list](const auto& content) { list(content); }, m);
  return list.leaves;
}

inline std::string text_of(const message& m) {
  return fmt::format("{}\n", fmt::join(leaves_of(m), "\n"));
}

template <std::size_t... Index>
std::vector<message> one_of_each(std::index_sequence<Index...>, std::size_t prompt_form) {
  return {message{std::in_place_index<Index>,
                  filled<std::variant_alternative_t<Index, message>>(prompt_form)}...};
}

// One filled message of each kind, in the order of the kinds.
inline std::vector<message> one_of_each(std::size_t prompt_form = 0) {
  return one_of_each(std::make_index_sequence<std::variant_size_v<message>>{}, prompt_form);
}

// One of each kind as it is when default-constructed.
template <std::size_t Index = 0>
message default_of(std::size_t index) {
  if constexpr (Index + 1 < std::variant_size_v<message>)
    if (index != Index)
      return default_of<Index + 1>(index);
  return message{std::in_place_index<Index>};
}

inline payload bytes_of(std::string text) {
  auto owner = std::make_shared<std::string>(std::move(text));
  return {owner, reinterpret_cast<const std::byte*>(owner->data()), owner->size()};
}

inline std::string text_of(const payload& bytes) {
  return {reinterpret_cast<const char*>(bytes.data), bytes.size_bytes};
}

} // namespace baton::test
