#include "gateway/request/tensor_data.hpp"

#include "gateway/base/json_text.hpp"
#include "gateway/request/number_bytes.hpp"
#include "runtime/text/unicode/utf8.hpp"
#include "schema/limits.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

namespace baton::gateway {
namespace {

template <class... Args>
error wrong(std::string_view name, fmt::format_string<Args...> text, Args&&... args) {
  return {errc::invalid_value,
          fmt::format("tensor '{}' {}", shown_name(name),
                      fmt::format(text, std::forward<Args>(args)...)),
          shown_name(name)};
}

error no_json(std::string_view name, std::string_view datatype) {
  return {errc::unsupported_parameter,
          fmt::format("tensor '{}' is of {}, which has no JSON: send and ask for binary data",
                      shown_name(name), datatype),
          shown_name(name)};
}

// Calls `take` with a zero of the datatype's element type.
template <class Take>
bool with_number(std::string_view datatype, Take take) {
  if (datatype == "INT8") {
    return take(std::int8_t{});
  }
  if (datatype == "INT16") {
    return take(std::int16_t{});
  }
  if (datatype == "INT32") {
    return take(std::int32_t{});
  }
  if (datatype == "INT64") {
    return take(std::int64_t{});
  }
  if (datatype == "UINT8") {
    return take(std::uint8_t{});
  }
  if (datatype == "UINT16") {
    return take(std::uint16_t{});
  }
  if (datatype == "UINT32") {
    return take(std::uint32_t{});
  }
  if (datatype == "UINT64") {
    return take(std::uint64_t{});
  }
  return datatype == "FP32" ? take(float{}) : take(double{});
}

// False: not a number of this type.
template <class Number>
bool append_value(std::string& out, const json& value) {
  if constexpr (std::is_floating_point_v<Number>) {
    const auto number = value.is_number() ? static_cast<Number>(value.get<double>())
                                          : std::numeric_limits<Number>::infinity();
    append_number(out, number);
    return std::isfinite(number);
  } else {
    using most = std::numeric_limits<Number>;
    if (value.is_number_unsigned()) { // the sign first: a huge number has no signed value
      append_number(out, static_cast<Number>(value.get<std::uint64_t>()));
      return value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most::max());
    }
    if (!value.is_number_integer() || std::is_unsigned_v<Number>) {
      return false;
    }
    append_number(out, static_cast<Number>(value.get<std::int64_t>()));
    return value.get<std::int64_t>() >= static_cast<std::int64_t>(most::min());
  }
}

bool append_one(std::string& out, std::string_view datatype, const json& value) {
  if (datatype == "BOOL") {
    const bool is_it = value.is_boolean();
    out += is_it && value.get<bool>() ? '\1' : '\0';
    return is_it;
  }
  if (datatype == "BYTES") {
    if (!value.is_string()) {
      return false;
    }
    const auto& text = value.get_ref<const std::string&>();
    append_number(out, static_cast<std::uint32_t>(text.size()));
    out += text;
    return true;
  }
  return with_number(datatype, [&](auto zero) { return append_value<decltype(zero)>(out, value); });
}

struct gathering {
  std::string_view datatype;
  std::size_t most;
  std::string bytes;
  std::size_t count = 0;
  const json* wrong = nullptr; // of another type

  bool take(const json& from) {
    if (from.is_array()) {
      return std::all_of(from.begin(), from.end(), [this](const json& one) { return take(one); });
    }
    if (++count > most) {
      return false;
    }
    if (!append_one(bytes, datatype, from)) {
      wrong = &from;
    }
    return wrong == nullptr;
  }
};

// Removes the first element; empty: it is truncated.
std::optional<std::string_view> take_text(std::string_view& left) noexcept {
  if (left.size() < sizeof(std::uint32_t)) {
    return std::nullopt;
  }
  const auto size = number_at<std::uint32_t>(left);
  left.remove_prefix(sizeof size);
  if (size > left.size()) {
    return std::nullopt;
  }
  const auto text = left.substr(0, size);
  left.remove_prefix(size);
  return text;
}

} // namespace

std::string shown_name(std::string_view name) {
  std::string out(name.substr(0, 64));
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
  return out;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]",
                     fmt::join(shape.first(std::min(shape.size(), limits::dimensions_max)), ","));
}

result<std::size_t> element_count(std::string_view name, std::span<const std::int64_t> shape) {
  std::uint64_t count = 1;
  if (shape.size() > limits::dimensions_max) {
    return wrong(name, "has {} dimensions of at most {}", shape.size(), limits::dimensions_max);
  }
  for (const auto n : shape) {
    if (n < 0) {
      return wrong(name, "has the shape {}: no size is negative", shape_text(shape));
    }
    if (n > 0 && count > limits::body_bytes_max / static_cast<std::uint64_t>(n)) {
      return wrong(name, "has the shape {}: it is larger than any message", shape_text(shape));
    }
    count *= static_cast<std::uint64_t>(n);
  }
  return static_cast<std::size_t>(count);
}

result<std::string> bytes_of_json(std::string_view name, std::string_view datatype,
                                  const json& data, std::size_t count) {
  const auto* row = find_datatype(datatype);
  if (!row) {
    return wrong(name, "is of '{}', which is no datatype", shown_name(datatype));
  }
  if (row->contents.empty()) {
    return no_json(name, datatype);
  }
  gathering all{.datatype = datatype, .most = count, .bytes = {}};
  if (!all.take(data) && all.wrong) {
    return wrong(name, "must be of {}: {} is not", datatype,
                 shown_name(all.wrong->dump(-1, ' ', true, json::error_handler_t::replace)));
  }
  if (all.count != count) {
    return wrong(name, "has {} values, and its shape {}", all.count > count ? "more" : "fewer",
                 count);
  }
  return std::move(all.bytes);
}

result<void> check_bytes(std::string_view name, std::string_view datatype, std::string_view bytes,
                         std::size_t count) {
  const auto* row = find_datatype(datatype);
  if (!row) {
    return wrong(name, "is of '{}', which is no datatype", shown_name(datatype));
  }
  if (row->bytes > 0) {
    return bytes.size() == row->bytes * count
               ? result<void>()
               : wrong(name, "has {} bytes of data, its shape {} of {}", bytes.size(),
                       row->bytes * count, datatype);
  }
  auto left = bytes;
  for (std::size_t i = 0; i < count; ++i) {
    if (!take_text(left)) {
      return wrong(name, "has {} bytes of data, which are not {} elements of BYTES", bytes.size(),
                   count);
    }
  }
  return left.empty() ? result<void>()
                      : wrong(name, "has {} bytes behind its {} elements", left.size(), count);
}

result<void> append_json(std::string& out, std::string_view name, std::string_view datatype,
                         std::string_view bytes, bool is_value) {
  const auto* row = find_datatype(datatype);
  ENSURE(row != nullptr, "a datatype that is none");
  if (row->contents.empty()) {
    return no_json(name, datatype);
  }
  out += is_value ? "" : "[";
  bool is_first = true;
  const auto begin_value = [&] { out += std::exchange(is_first, false) ? "" : ","; };
  if (row->bytes == 0) {
    for (auto left = bytes; !left.empty();) {
      const auto text = take_text(left);
      ENSURE(text, "bytes that were not checked");
      if (text::utf8_valid_prefix(*text) != text->size()) {
        return wrong(name, "is not text in UTF-8: ask for binary data");
      }
      begin_value();
      append_json_string(out, *text);
    }
  } else if (datatype == "BOOL") {
    for (const auto c : bytes) {
      begin_value();
      out += c != 0 ? "true" : "false";
    }
  } else {
    const bool is_well = with_number(datatype, [&](auto zero) {
      using number = decltype(zero);
      for (auto left = bytes; !left.empty(); left.remove_prefix(sizeof(number))) {
        const auto value = number_at<number>(left);
        if constexpr (std::is_floating_point_v<number>) {
          if (!std::isfinite(value)) {
            return false;
          }
        }
        begin_value();
        if constexpr (sizeof(number) == 1) {
          fmt::format_to(std::back_inserter(out), "{}", static_cast<int>(value));
        } else {
          fmt::format_to(std::back_inserter(out), "{}", value);
        }
      }
      return true;
    });
    if (!is_well) {
      return wrong(name, "has a number that JSON cannot express: ask for binary data");
    }
  }
  out += is_value ? "" : "]";
  return {};
}

} // namespace baton::gateway
