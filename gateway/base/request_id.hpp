// The id by which one request is found in logs: the client's own (X-Request-ID, or the metadata
// x-request-id), else a new one. Pure.
#pragma once

#include <string>
#include <string_view>

namespace baton::gateway {

inline constexpr std::string_view request_id_header = "X-Request-ID";
inline constexpr std::size_t request_id_bytes_max = 128;

// Whether a client's may be said back and written down: 1 to 128 of printable ASCII without space,
// quotes and backslash.
bool is_request_id(std::string_view said) noexcept;
// 32 hex digits, random. Any thread.
std::string new_request_id();
// `said` if it is one, else a new one.
std::string request_id_of(std::string_view said);

} // namespace baton::gateway
