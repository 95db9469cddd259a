// JSON as text: finds a value in the client's own bytes, and writes values as text. All functions
// accept any bytes, read none outside of them, and throw only if memory runs out. Pure.
#pragma once

#include "schema/result.hpp"

#include <nlohmann/json.hpp>

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace baton::gateway {

// The text after a byte order mark, which some clients write before JSON. RFC 8259, section 8.1
// lets a parser ignore it. All APIs do so by this function.
std::string_view without_mark(std::string_view text) noexcept;

// The text of the value at `path` below the object `text`, as the client wrote it, with its members
// in order. The last of equal names counts, as in parse_json. Errors: invalid_request, with the
// path as param (it is missing, or `text` is not JSON).
result<std::string> raw_member(std::string_view text, std::span<const std::string_view> path);

// A client's name for an error message: short and printable.
std::string shown_member(std::string_view name);

// Appends `text` as a JSON string, with quotes. Invalid UTF-8 is replaced.
void append_json_string(std::string& out, std::string_view text);

// Compact. Invalid UTF-8 is replaced.
template <class Json = nlohmann::ordered_json>
std::string json_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

} // namespace baton::gateway
