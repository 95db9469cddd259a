// HTTP/1.x responses as bytes (RFC 9110, RFC 9112). Pure; Beast parses the requests.
#pragma once

#include "schema/error.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baton::gateway {

inline constexpr std::string_view json_media = "application/json";

using header_list = std::vector<std::pair<std::string, std::string>>;

struct http_reply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  header_list headers;
  bool names_request = false; // `render` adds "request_id" to the body, an object that has members
};

// 200 with a JSON body.
http_reply json_reply(std::string body);

// The value of Retry-After: whole seconds, at least one.
std::uint64_t retry_seconds(std::chrono::milliseconds retry_after) noexcept;

// {"error":{"message","type","param","code"}}, OpenAI's error body.
std::string error_body(const error& e);
// OpenAI's error body with the status of the error's row, and Retry-After if it may be retried. For
// refused requests: refusal.hpp.
http_reply error_reply(const error& e, std::chrono::milliseconds retry_after = {});

struct reply_framing {
  bool is_http_1_0 = false;
  bool keeps_alive = true;
  bool is_head = false; // only the header is sent
  std::string request_id{};
  std::string_view id_header{}; // a second header with the id, of the route's API; empty: none
};

std::string render(const http_reply& reply, const reply_framing& framing);
// Header of a response in pieces: chunked in HTTP/1.1, until the connection closes in 1.0.
inline constexpr std::string_view event_stream_type = "text/event-stream; charset=utf-8";
// A comment between server-sent events: keeps proxies from timing out.
inline constexpr std::string_view event_comment = ": waiting\n\n";
// Whether a comment may follow `sent`, the end of the body so far: only between two events.
bool takes_comment(std::string_view content_type, std::string_view sent) noexcept;
std::string event_stream_header(const reply_framing& framing, const header_list& further = {},
                                std::string_view content_type = event_stream_type);
// The same for a body that is sent as it arrives. Content type and headers are those of `reply`.
std::string stream_header(const http_reply& reply, const reply_framing& framing);
// One chunk of a chunked body; the last one is empty.
void append_chunk(std::string& out, std::string_view bytes);

} // namespace baton::gateway
