// JSON as text: what a client wrote, found again in its own bytes, and values written as text.
// Nothing here trusts what another parser has found: all functions take any bytes, read none
// outside of them, and throw nothing but for want of memory. Pure.
#pragma once

#include "schema/result.hpp"

#include <nlohmann/json.hpp>

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace baton::gateway {

// The text behind a byte order mark, which some clients write before JSON; RFC 8259, section 8.1
// lets a parser read over it. All doors do, here alone.
std::string_view without_mark(std::string_view text) noexcept;

// The text of the value at `path` below the object that `text` is: what the client wrote, with its
// members in their order. Of names that come twice the last one counts, as in parse_json. Errors:
// invalid_request, with the path as param (it is not there, or `text` is no JSON).
result<std::string> raw_member(std::string_view text, std::span<const std::string_view> path);

// A name from a client as it comes back in error messages: short and printable.
std::string shown_member(std::string_view name);

// As short as can be; what is not UTF-8 is replaced.
template <class Json = nlohmann::ordered_json>
std::string json_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

} // namespace baton::gateway
