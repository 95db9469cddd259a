// The bytes of an HTTP connection, one request after the other, with the session's parser, limits
// and routes, and the trace in the header. Once as one piece, once in small ones.
#include "gateway/base/http_header.hpp"
#include "gateway/http/http_request.hpp"
#include "tests/fuzz/input.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/read.hpp>

#include <algorithm>

using namespace baton;
using namespace baton::gateway;

namespace {

namespace http = boost::beast::http;
using error_code = boost::system::error_code;

// A connection whose client sends no more bytes.
class sent_bytes {
public:
  sent_bytes(std::string_view bytes, std::size_t piece) : left_(bytes), piece_(piece) {}

  template <class Buffers>
  std::size_t read_some(const Buffers& to, error_code& ec) {
    if (left_.empty()) {
      ec = boost::asio::error::eof;
      return 0;
    }
    ec = {};
    const auto read = boost::asio::buffer_copy(
        to, boost::asio::buffer(left_.data(), std::min(left_.size(), piece_)));
    left_.remove_prefix(read);
    return read;
  }
  template <class Buffers>
  std::size_t read_some(const Buffers& to) { // required by the concept only
    error_code ec;
    return read_some(to, ec);
  }

private:
  std::string_view left_;
  std::size_t piece_;
};

gateway_config traced() {
  gateway_config config;
  config.otlp_endpoint = "http://127.0.0.1:4318";
  return config;
}

// A propagated header must be readable for the next server.
void check_trace(const trace_parent& trace) {
  auto again = parse_traceparent(traceparent_of(trace));
  ENSURE(again && trace.state.size() <= tracestate_bytes_max, "a trace that is none");
  again->state = parse_tracestate(trace.state);
  ENSURE(*again == trace, "the state '{}' is read as '{}'", trace.state, again->state);
}

gateway_config locked() {
  gateway_config config;
  config.keys = {{"user", {digest_of_key("secret")}, key_role::user, {}}};
  return config;
}

void check_reply(const http_reply& reply, const reply_framing& framing) {
  ENSURE(reply.status >= 200 && reply.status < 600, "status {}", reply.status);
  const auto bytes = render(reply, framing);
  ENSURE(bytes.starts_with("HTTP/1.") && bytes.find("\r\n\r\n") != std::string::npos,
         "no header: {}", bytes.substr(0, 64));
}

// A call that needs no key. The page and its files ask for it themselves; POST / generates, as in
// TGI.
bool is_open_to_all(const http_call& call) {
  const auto target = call.target;
  const auto begins = [target](std::string_view path) { return target.starts_with(path); };
  return (path_of(target) == "/" && call.method != "POST") || begins("/health") ||
         begins("/ping") || begins("/page/") || begins("/v2/health/");
}

// Returns whether another request may follow.
bool one_request(const http_api& open, const http_api& keyed, const http_limits& limits,
                 listener_kind listener, sent_bytes& client, boost::beast::flat_buffer& buffer) {
  http_request request(limits, listener);
  error_code ec;
  http::read_header(client, buffer, request.reader(), ec);
  if (!ec) {
    const auto locked_out = keyed.admit(request.call());
    ENSURE(locked_out.refusal || locked_out.who.name() == "user" || is_torchserve(listener) ||
               is_open_to_all(request.call()),
           "let in: {}", request.call().target);
    const auto admitted = request.admit_head(open, http_api::find(request.call()));
    if (admitted.who.trace)
      check_trace(*admitted.who.trace);
    if (admitted.refusal) {
      check_reply(*admitted.refusal, request.framing());
      return request.reader().is_done();
    }
    (void)request.expects_continue();
    http::read(client, buffer, request.reader(), ec);
  }
  if (ec) {
    if (const auto e = read_error(ec, limits))
      check_reply(error_reply(*e), {});
    return false;
  }
  const auto plan = open.plan(request.call());
  if (const auto* reply = std::get_if<http_reply>(&plan))
    check_reply(*reply, request.framing());
  return request.framing().keeps_alive && !std::holds_alternative<websocket_upgrade>(plan);
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const http_api open(std::make_shared<gateway_state>(traced()));
  static const http_api keyed(std::make_shared<gateway_state>(locked()));
  static const http_limits limits;
  constexpr std::size_t buffer_bytes_max = 64 * 1024; // that of http_connection
  for (const std::size_t piece : {SIZE_MAX, std::size_t{7}}) {
    sent_bytes client(fuzz::text_of(data, size), piece);
    boost::beast::flat_buffer buffer(buffer_bytes_max);
    while (one_request(open, keyed, limits, listener_kind::clients, client, buffer)) {
    }
  }
  for (const auto listener :
       {listener_kind::ollama, listener_kind::torchserve_inference,
        listener_kind::torchserve_management, listener_kind::torchserve_metrics}) {
    sent_bytes client(fuzz::text_of(data, size), SIZE_MAX);
    boost::beast::flat_buffer buffer(buffer_bytes_max);
    while (one_request(open, keyed, limits, listener, client, buffer)) {
    }
  }
  return 0;
}
