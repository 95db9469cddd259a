#include "gateway/base/http_text.hpp"

#include "gateway/base/http_header.hpp"
#include "gateway/base/json_text.hpp"
#include "gateway/base/request_id.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <iterator>

namespace baton::gateway {
namespace {

std::string_view reason_phrase(int status) noexcept {
  switch (status) {
  case 200:
    return "OK";
  case 204:
    return "No Content";
  case 304:
    return "Not Modified";
  case 400:
    return "Bad Request";
  case 401:
    return "Unauthorized";
  case 403:
    return "Forbidden";
  case 404:
    return "Not Found";
  case 405:
    return "Method Not Allowed";
  case 408:
    return "Request Timeout";
  case 409:
    return "Conflict";
  case 413:
    return "Content Too Large";
  case 415:
    return "Unsupported Media Type";
  case 422:
    return "Unprocessable Content";
  case 424:
    return "Failed Dependency";
  case 429:
    return "Too Many Requests";
  case 431:
    return "Request Header Fields Too Large";
  case 499:
    return "Client Closed Request";
  case 500:
    return "Internal Server Error";
  case 503:
    return "Service Unavailable";
  case 504:
    return "Gateway Timeout";
  case 507:
    return "Insufficient Storage";
  case 529: // in no RFC
    return "Overloaded";
  default:
    return "Status";
  }
}

void append_head(std::string& out, int status, std::string_view content_type,
                 const reply_framing& framing) {
  // RFC 9110 5.6.7. Days and months are in English: the process never sets a locale.
  char date[64] = {};
  const auto now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &utc);
  fmt::format_to(std::back_inserter(out), "HTTP/1.{} {} {}\r\nDate: {}\r\n",
                 framing.is_http_1_0 ? 0 : 1, status, reason_phrase(status), date);
  if (!content_type.empty()) {
    fmt::format_to(std::back_inserter(out), "Content-Type: {}\r\n", content_type);
  }
  if (!framing.request_id.empty()) {
    fmt::format_to(std::back_inserter(out), "{}: {}\r\n", request_id_header, framing.request_id);
    if (!framing.id_header.empty()) {
      fmt::format_to(std::back_inserter(out), "{}: {}\r\n", framing.id_header, framing.request_id);
    }
  }
  if (!framing.keeps_alive) {
    out += "Connection: close\r\n";
  } else if (framing.is_http_1_0) {
    out += "Connection: keep-alive\r\n";
  }
}

// Skips a handler's own request id: it would be a second one.
void append_headers(std::string& out, const header_list& headers, const reply_framing& framing) {
  for (const auto& [name, value] : headers) {
    if (!framing.request_id.empty() && lower(name) == lower(request_id_header)) {
      continue;
    }
    fmt::format_to(std::back_inserter(out), "{}: {}\r\n", name, value);
  }
}

} // namespace

http_reply json_reply(std::string body) {
  http_reply reply;
  reply.body = std::move(body);
  return reply;
}

std::string error_body(const error& e) {
  using ordered = nlohmann::ordered_json;
  const auto& row = row_of(e.code);
  ordered inner{{"message", e.message}, {"type", row.type}};
  inner["param"] = e.param.empty() ? ordered(nullptr) : ordered(e.param);
  inner["code"] = row.name;
  return json_text<ordered>({{"error", std::move(inner)}});
}

std::uint64_t retry_seconds(std::chrono::milliseconds retry_after) noexcept {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(retry_after).count();
  return static_cast<std::uint64_t>(std::max<std::int64_t>(1, seconds));
}

http_reply error_reply(const error& e, std::chrono::milliseconds retry_after) {
  const auto& row = row_of(e.code);
  http_reply reply;
  reply.status = row.http_status;
  reply.body = error_body(e);
  if (row.retryable) {
    reply.headers.emplace_back("Retry-After", std::to_string(retry_seconds(retry_after)));
  }
  if (e.code == errc::unauthorized) {
    reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  }
  return reply;
}

std::string render(const http_reply& reply, const reply_framing& framing) {
  if (reply.names_request) {
    auto named = reply;
    named.names_request = false;
    named.body.pop_back(); // the closing brace
    named.body += R"(,"request_id":)";
    append_json_string(named.body, framing.request_id);
    named.body += '}';
    return render(named, framing);
  }
  std::string out;
  out.reserve(reply.body.size() + 256);
  const bool has_body = reply.status != 204 && reply.status != 304; // RFC 9110, section 6.4.1
  append_head(out, reply.status, has_body ? reply.content_type : "", framing);
  append_headers(out, reply.headers, framing);
  if (has_body) {
    fmt::format_to(std::back_inserter(out), "Content-Length: {}\r\n", reply.body.size());
  }
  out += "\r\n";
  if (!framing.is_head) {
    out += reply.body;
  }
  return out;
}

std::string event_stream_header(const reply_framing& framing, const header_list& further,
                                std::string_view content_type) {
  std::string out;
  append_head(out, 200, content_type, framing);
  append_headers(out, further, framing);
  out += "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n"; // nginx must not hold events back
  if (!framing.is_http_1_0) {
    out += "Transfer-Encoding: chunked\r\n";
  }
  out += "\r\n";
  return out;
}

std::string stream_header(const http_reply& reply, const reply_framing& framing) {
  std::string out;
  append_head(out, reply.status, reply.content_type, framing);
  append_headers(out, reply.headers, framing);
  out += "X-Accel-Buffering: no\r\n"; // nginx must not hold pieces back
  if (!framing.is_http_1_0) {
    out += "Transfer-Encoding: chunked\r\n";
  }
  out += "\r\n";
  return out;
}

bool takes_comment(std::string_view content_type, std::string_view sent) noexcept {
  constexpr std::string_view events = "text/event-stream";
  const auto media = content_type.substr(0, content_type.find_first_of("; "));
  const bool is_events = std::equal(media.begin(), media.end(), events.begin(), events.end(),
                                    [](unsigned char a, char b) { return std::tolower(a) == b; });
  return is_events && (sent.ends_with("\n\n") || sent.ends_with("\r\n\r\n"));
}

void append_chunk(std::string& out, std::string_view bytes) {
  fmt::format_to(std::back_inserter(out), "{:x}\r\n", bytes.size());
  out += bytes;
  out += "\r\n";
}

} // namespace baton::gateway
