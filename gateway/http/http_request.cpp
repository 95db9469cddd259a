#include "gateway/http/http_request.hpp"

#include "gateway/auth/crash_record.hpp"
#include "gateway/base/http_header.hpp"
#include "gateway/base/request_id.hpp"

#include <boost/beast/http/error.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <boost/beast/websocket/rfc6455.hpp>

#include <iterator>

namespace baton::gateway {
namespace {

namespace http = boost::beast::http;

constexpr boost::beast::string_view api_key_header = "X-Api-Key";

std::string_view view(boost::beast::string_view s) noexcept {
  return {s.data(), s.size()};
}

// A traceparent that occurs twice is invalid (W3C Trace Context, section 4.3). The lines of
// tracestate are one list (RFC 9110, section 5.3).
std::optional<trace_parent> trace_of(const http_request::message& m) {
  if (m.count("traceparent") != 1) {
    return std::nullopt;
  }
  auto parent = parse_traceparent(view(m["traceparent"]));
  if (!parent) {
    return std::nullopt;
  }
  std::string list;
  const auto [first, last] = m.equal_range("tracestate");
  for (auto line = first; line != last; ++line) {
    list += list.empty() ? "" : ",";
    list += view(line->value());
  }
  parent->state = parse_tracestate(list);
  return parent;
}

// Routes never see absolute-form. An invalid target stays as it is, and matches no route.
void set_target(http_call& call, std::string_view text) {
  const auto read = read_target(call.method, text);
  call.target = read ? read->target : text;
  if (read && !read->authority.empty()) {
    call.host = read->authority;
  }
}

// Handlers get no keys, no cookies, and no headers about the message's framing.
bool is_for_handlers(http::field name) noexcept {
  switch (name) {
  case http::field::authorization:
  case http::field::proxy_authorization:
  case http::field::cookie:
  case http::field::connection:
  case http::field::proxy_connection:
  case http::field::keep_alive:
  case http::field::content_length:
  case http::field::content_type: // beside the body
  case http::field::transfer_encoding:
  case http::field::te:
  case http::field::trailer:
  case http::field::expect:
  case http::field::upgrade:
    return false;
  default:
    return true;
  }
}

std::vector<header_field> headers_of(const http_request::message& m) {
  std::vector<header_field> all;
  for (const auto& field : m) {
    if (is_for_handlers(field.name()) &&
        !boost::beast::iequals(field.name_string(), api_key_header)) {
      all.push_back({std::string(view(field.name_string())), std::string(view(field.value()))});
    }
  }
  return all;
}

} // namespace

http_request::http_request(const http_limits& limits, listener_kind listener)
    : limits_(limits), listener_(listener),
      on_chunk_([most = limits.chunk_extension_bytes_max](
                    std::uint64_t, boost::beast::string_view extensions, error_code& ec) {
        if (extensions.size() > most) {
          ec = http::error::bad_chunk_extension;
        }
      }) {
  reader_.header_limit(static_cast<std::uint32_t>(limits.header_bytes_max));
  reader_.body_limit(limits.body_bytes_max);
  reader_.on_chunk_header(on_chunk_);
}

reply_framing http_request::framing() const {
  const auto& m = get();
  const boost::beast::string_view name(request_id_header.data(), request_id_header.size());
  const auto given = m.count(name) == 1 ? m[name] : boost::beast::string_view();
  return {.is_http_1_0 = m.version() < 11,
          .keeps_alive = m.keep_alive(),
          .is_head = m.method() == http::verb::head,
          .request_id = request_id_of(view(given))};
}

bool http_request::has_known_end() const { // RFC 9112, section 6.3
  return get().count(http::field::transfer_encoding) == 0 || get().chunked();
}

bool http_request::expects_continue() const {
  return get().version() >= 11 &&
         http::token_list(get()[http::field::expect]).exists("100-continue");
}

http_api::access_result http_request::admit_head(const http_api& api,
                                                 const found_route& route) const {
  const auto refused = [this](const error& e) {
    return http_api::access_result{{}, http_api::refuse_early(call(), e)};
  };
  const auto& m = get();
  const auto lines = std::distance(m.begin(), m.end());
  if (lines > static_cast<std::ptrdiff_t>(limits_.header_lines_max)) {
    return refused(fail(errc::header_too_large, "the header has {} lines of at most {}", lines,
                        limits_.header_lines_max));
  }
  if (m.version() >= 11 && m.count(http::field::host) != 1) { // RFC 9112, section 3.2
    return refused(fail(errc::invalid_request, "HTTP/1.1 needs one Host header"));
  }
  if (m.count(http::field::transfer_encoding) > 0 && m.count(http::field::content_length) > 0) {
    return refused( // RFC 9112, section 6.1: this would allow request smuggling
        fail(errc::invalid_request, "Transfer-Encoding and Content-Length exclude each other"));
  }
  if (!has_known_end()) {
    return refused(fail(errc::invalid_request, "the last transfer coding must be 'chunked'"));
  }
  if (!read_target(view(m.method_string()), view(m.target()))) {
    return refused(fail(errc::invalid_request,
                        "the request target must be a path, or an http URL of this server"));
  }
  auto admitted = api.admit(call(), route);
  admitted.who.trace = trace_for(api);
  return admitted;
}

std::optional<http_reply> http_request::refuse_suspect(const found_route& route,
                                                       const crash_record* record,
                                                       const crash_client& client) const {
  if (!record || http_api::is_open(call(), route)) {
    return std::nullopt;
  }
  const auto no = refusal_of_suspect(record, client);
  if (!no) {
    return std::nullopt;
  }
  return http_api::refuse_early(call(), *no);
}

std::optional<trace_parent> http_request::trace_for(const http_api& api) const {
  return api.reads_traces() ? trace_of(get()) : std::nullopt;
}

http_call http_request::call() const {
  const auto& m = get();
  http_call call;
  call.method = view(m.method_string());
  call.host = view(m[http::field::host]);
  set_target(call, view(m.target()));
  call.origin = view(m[http::field::origin]);
  call.accept = view(m[http::field::accept]);
  call.content_type = view(m[http::field::content_type]);
  call.content_encoding = view(m[http::field::content_encoding]);
  call.authorization = view(m[http::field::authorization]);
  call.api_key = view(m[api_key_header]);
  call.last_event_id = view(m["Last-Event-ID"]);
  call.infer_header_length = view(m["Inference-Header-Content-Length"]);
  call.if_none_match = view(m[http::field::if_none_match]);
  call.accept_encoding = view(m[http::field::accept_encoding]);
  call.protocols = view(m[http::field::sec_websocket_protocol]);
  call.headers_for_handlers = [&m] { return headers_of(m); };
  call.is_websocket_upgrade = boost::beast::websocket::is_upgrade(m);
  call.is_http_1_0 = m.version() < 11;
  call.listener = listener_;
  call.body = m.body();
  return call;
}

std::size_t skip_empty_lines(boost::beast::flat_buffer& buffer, std::size_t most) {
  std::size_t lines = 0;
  for (; lines < most; ++lines) {
    const auto unread = buffer.cdata();
    if (!std::string_view(static_cast<const char*>(unread.data()), unread.size())
             .starts_with("\r\n")) {
      break;
    }
    buffer.consume(2);
  }
  return lines;
}

void read_first_line(http_call& call, std::string_view unread) {
  const auto end = unread.find("\r\n");
  const auto line = unread.substr(0, end == unread.npos ? 0 : end);
  const auto first = line.find(' ');
  const auto last = line.rfind(" HTTP/");
  if (first == line.npos || last == line.npos || last <= first) {
    return;
  }
  call.method = line.substr(0, first);
  set_target(call, line.substr(first + 1, last - first - 1));
}

std::optional<error> read_error(const boost::system::error_code& ec, const http_limits& limits) {
  if (ec == http::error::header_limit || ec == http::error::buffer_overflow) {
    return fail(errc::header_too_large, "the header has more than {} bytes",
                limits.header_bytes_max);
  }
  if (ec == http::error::body_limit) {
    return fail(errc::payload_too_large, "the body has more than {} bytes", limits.body_bytes_max);
  }
  const bool is_hang_up = ec == http::error::end_of_stream || ec == http::error::partial_message;
  if (is_hang_up || ec.category() != http::make_error_code(http::error::bad_method).category()) {
    return std::nullopt;
  }
  return fail(errc::invalid_request, "this is not HTTP/1.1: {}", ec.message());
}

} // namespace baton::gateway
