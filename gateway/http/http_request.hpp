// One HTTP request as Beast's parser reads it: its limits, refusals that do not depend on the body,
// and the parts that routes look at. Knows no socket. Used by http_session. Heavy: Beast.
#pragma once

#include "gateway/routes/http_api.hpp"

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <functional>
#include <optional>

namespace baton::gateway {

class crash_record;
struct crash_client;

class http_request {
public:
  using message = boost::beast::http::request<boost::beast::http::string_body>;
  using parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  using error_code = boost::system::error_code;

  // Requires: `limits` outlives the request.
  explicit http_request(const http_limits& limits, listener_kind listener = listener_kind::clients);

  parser& reader() noexcept { return reader_; }
  const message& get() const { return reader_.get(); }
  // Valid once the header is read:
  reply_framing framing() const;
  bool has_known_end() const;    // else no further request can follow
  bool expects_continue() const; // it waits for "100 Continue" before it sends its body
  // The caller, or a refusal that does not depend on the body. `route` is the one of call().
  http_api::access_result admit_head(const http_api& api, const found_route& route) const;
  // Refuses a client whose requests have crashed this gateway; nothing for a route that is open to
  // all, such as health.
  std::optional<http_reply> refuse_suspect(const found_route& route, const crash_record* record,
                                           const crash_client& client) const;
  // The trace of the caller, if traces are exported.
  std::optional<trace_parent> trace_for(const http_api& api) const;
  // Views into the parser's memory.
  http_call call() const;

private:
  const http_limits& limits_;
  const listener_kind listener_;
  // The parser keeps a reference to it.
  std::function<void(std::uint64_t, boost::beast::string_view, error_code&)> on_chunk_;
  parser reader_;
};

// Removes at most `most` empty lines, with which some clients end the previous body (RFC 9112,
// section 2.2). Returns their number.
std::size_t skip_empty_lines(boost::beast::flat_buffer& buffer, std::size_t most);

// Sets method and target of a request whose header is not read yet, from the first line of its
// bytes, if it has arrived. Views into `unread`.
void read_first_line(http_call& call, std::string_view unread);

// The error for bytes that are not a request; nothing if the client hung up.
std::optional<error> read_error(const boost::system::error_code& ec, const http_limits& limits);

} // namespace baton::gateway
