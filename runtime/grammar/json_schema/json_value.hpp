// JSON as schemas need it: members and numbers keep their order and notation. Strict (RFC 8259),
// bounded, without exceptions.
#pragma once

#include "schema/result.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baton::grammar {

struct json_value {
  enum class kind : std::uint8_t { null, boolean, number, string, array, object };
  kind is = kind::null;
  bool boolean = false;
  std::string text{}; // of a string, its characters; of a number, as written
  std::vector<json_value> items{};
  std::vector<std::pair<std::string, json_value>> members{};

  // Null if no member has the name.
  const json_value* find(std::string_view name) const noexcept;
  bool is_object() const noexcept { return is == kind::object; }
  bool is_array() const noexcept { return is == kind::array; }
  bool is_string() const noexcept { return is == kind::string; }
  bool is_number() const noexcept { return is == kind::number; }
  bool is_boolean() const noexcept { return is == kind::boolean; }
  friend bool operator==(const json_value&, const json_value&) = default;
};

// Errors: invalid_value.
result<json_value> parse_json(std::string_view text);

// The shortest text; members and numbers as written.
std::string to_text(const json_value& value);
// A string with its quotes.
std::string quoted(std::string_view text);

} // namespace baton::grammar
