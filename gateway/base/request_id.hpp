// The id that finds a request in logs: the client's own (X-Request-ID, or the metadata
// x-request-id), else a new one. Pure.
#pragma once

#include <string>
#include <string_view>

namespace baton::gateway {

inline constexpr std::string_view request_id_header = "X-Request-ID";
inline constexpr std::size_t request_id_bytes_max = 128;

// Whether a client's id may be echoed and logged: 1 to 128 printable ASCII characters without
// space, quotes and backslash.
bool is_request_id(std::string_view given) noexcept;
// 32 hex digits, random. Any thread.
std::string new_request_id();
// The client's if it is valid, else a new one.
std::string request_id_of(std::string_view given);

} // namespace baton::gateway
