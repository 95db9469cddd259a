// Heavy: Asio and Beast's HTTP parser.
#include "gateway/http_session.hpp"

#include "gateway/http_answers.hpp"
#include "gateway/http_connection.hpp"
#include "gateway/websocket.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/websocket/rfc6455.hpp>
#include <spdlog/spdlog.h>

#include <iterator>

namespace baton::gateway {
namespace {

namespace http = boost::beast::http;
using parser = http::request_parser<http::string_body>;

std::string_view view(boost::beast::string_view s) noexcept {
  return {s.data(), s.size()};
}

// Reads requests one after the other and carries out what the routes say.
class http_session {
public:
  explicit http_session(std::shared_ptr<http_connection> client) : client_(std::move(client)) {}
  asio::awaitable<void> run();

private:
  asio::awaitable<after> one_request(bool is_first);
  asio::awaitable<error_code> read_head(parser& p, bool is_first);
  asio::awaitable<after> judge_read_error(error_code ec);
  asio::awaitable<after> serve(parser& p);
  std::optional<http_reply> refuse_head(parser& p) const;
  http_call call_of(const parser& p) const;

  std::shared_ptr<http_connection> client_;
};

asio::awaitable<void> http_session::run() {
  client_->prepare();
  auto next = after::next_request;
  for (bool is_first = true; next == after::next_request && !client_->is_stopping();
       is_first = false) {
    next = co_await one_request(is_first);
  }
  if (next == after::linger) {
    co_await client_->linger();
  }
  client_->retire(next);
}

asio::awaitable<error_code> http_session::read_head(parser& p, bool is_first) {
  const auto& limits = client_->limits();
  if (client_->buffer().size() == 0) {
    client_->deadline().arm(is_first ? limits.header_timeout : limits.idle_timeout);
    auto [ec] = co_await client_->socket().async_wait(tcp::socket::wait_read, as_values);
    if (ec) {
      co_return asio::error::eof; // idle for too long, or the server stops: no word is due
    }
  }
  client_->deadline().arm(limits.header_timeout);
  client_->started_at = http_connection::clock::now();
  auto [ec, n] =
      co_await http::async_read_header(client_->socket(), client_->buffer(), p, as_values);
  co_return ec;
}

asio::awaitable<after> http_session::judge_read_error(error_code ec) {
  client_->framing.keeps_alive = false;
  if (ec == asio::error::eof) {
    co_return after::close;
  }
  if (client_->deadline().has_bitten()) {
    const auto e = fail(errc::request_timeout, "the request did not come in time");
    co_return co_await client_->reply(error_reply(e), true);
  }
  if (ec == http::error::header_limit || ec == http::error::buffer_overflow) {
    const auto e = fail(errc::header_too_large, "the header has more than {} bytes",
                        client_->limits().header_bytes_max);
    co_return co_await client_->reply(error_reply(e), true);
  }
  if (ec == http::error::body_limit) {
    const auto e = fail(errc::payload_too_large, "the body has more than {} bytes",
                        client_->limits().body_bytes_max);
    co_return co_await client_->reply(error_reply(e), true);
  }
  const bool is_hang_up = ec == http::error::end_of_stream || ec == http::error::partial_message;
  if (!is_hang_up && ec.category() == http::make_error_code(http::error::bad_method).category()) {
    const auto e = fail(errc::invalid_request, "this is not HTTP/1.1: {}", ec.message());
    co_return co_await client_->reply(error_reply(e), true);
  }
  co_return after::close;
}

http_call http_session::call_of(const parser& p) const {
  const auto& m = p.get();
  http_call call;
  call.method = view(m.method_string());
  call.target = view(m.target());
  call.host = view(m[http::field::host]);
  call.origin = view(m[http::field::origin]);
  call.content_type = view(m[http::field::content_type]);
  call.content_encoding = view(m[http::field::content_encoding]);
  call.authorization = view(m[http::field::authorization]);
  call.last_event_id = view(m["Last-Event-ID"]);
  call.is_websocket_upgrade = boost::beast::websocket::is_upgrade(m);
  call.body = m.body();
  return call;
}

// What is wrong with the request whatever its body says.
std::optional<http_reply> http_session::refuse_head(parser& p) const {
  const auto& m = p.get();
  const auto lines = std::distance(m.begin(), m.end());
  if (lines > static_cast<std::ptrdiff_t>(client_->limits().header_lines_max)) {
    return error_reply(fail(errc::header_too_large, "the header has {} lines of at most {}", lines,
                            client_->limits().header_lines_max));
  }
  if (m.version() >= 11 && m.count(http::field::host) != 1) { // RFC 9112, section 3.2
    return error_reply(fail(errc::invalid_request, "HTTP/1.1 needs one Host header"));
  }
  if (m.count(http::field::transfer_encoding) > 0 && m.count(http::field::content_length) > 0) {
    return error_reply( // RFC 9112, section 6.1: the way of request smuggling
        fail(errc::invalid_request, "Transfer-Encoding and Content-Length exclude each other"));
  }
  return client_->core().api.refuse_early(call_of(p));
}

asio::awaitable<after> http_session::one_request(bool is_first) {
  const auto& limits = client_->limits();
  client_->framing = {};
  client_->route = "other";
  client_->started_at = http_connection::clock::now();
  parser p;
  p.header_limit(static_cast<std::uint32_t>(limits.header_bytes_max));
  p.body_limit(limits.body_bytes_max);
  auto on_chunk = [most = limits.chunk_extension_bytes_max](
                      std::uint64_t, boost::beast::string_view extensions, error_code& ec) {
    if (extensions.size() > most) {
      ec = http::error::bad_chunk_extension;
    }
  };
  p.on_chunk_header(on_chunk);
  if (auto ec = co_await read_head(p, is_first); ec) {
    co_return co_await judge_read_error(ec);
  }
  const auto& m = p.get();
  client_->framing = {m.version() < 11, m.keep_alive(), m.method() == http::verb::head};
  client_->route = http_api::route_name(view(m.target()));
  if (auto refusal = refuse_head(p)) {
    // Without its body read the connection has no known next request.
    co_return co_await client_->reply(*refusal, !p.is_done());
  }
  if (http::token_list(m[http::field::expect]).exists("100-continue") && m.version() >= 11) {
    if (!co_await client_->write("HTTP/1.1 100 Continue\r\n\r\n")) {
      co_return after::close;
    }
  }
  if (!p.is_done()) {
    client_->deadline().arm(limits.body_timeout);
    auto [ec, n] = co_await http::async_read(client_->socket(), client_->buffer(), p, as_values);
    if (ec) {
      co_return co_await judge_read_error(ec);
    }
  }
  client_->deadline().disarm();
  co_return co_await serve(p);
}

asio::awaitable<after> http_session::serve(parser& p) {
  auto plan = client_->core().api.plan(call_of(p));
  if (auto* r = std::get_if<http_reply>(&plan)) {
    co_return co_await client_->reply(*r);
  }
  if (auto* upgrade = std::get_if<websocket_upgrade>(&plan)) {
    client_->deadline().disarm();
    client_->count_request(101);
    start_websocket_session(client_->core(), std::move(client_->socket()), p.release(),
                            std::move(upgrade->caller));
    co_return after::handed_over;
  }
  p.get().body().clear();
  p.get().body().shrink_to_fit();
  if (auto* g = std::get_if<openai_generate>(&plan)) {
    co_return co_await answer(*client_, std::move(*g));
  }
  if (auto* t = std::get_if<tokenize_call>(&plan)) {
    co_return co_await answer(*client_, std::move(*t));
  }
  co_return co_await answer(*client_, std::move(std::get<detokenize_call>(plan)));
}

} // namespace

bool start_http_session(door_core& core, tcp::socket& socket) {
  // The stop function is known only with the connection: until then there is nothing to stop.
  const auto id = core.connections.enter([] {}, core.config().http_bounds.connections_max);
  if (!id) {
    return false;
  }
  auto client = std::make_shared<http_connection>(core, std::move(socket), *id);
  core.connections.replace(*id, [weak = std::weak_ptr(client)] {
    if (auto self = weak.lock()) {
      self->stop();
    }
  });
  auto session = std::make_shared<http_session>(client);
  asio::co_spawn(
      client->socket().get_executor(), [session] { return session->run(); },
      [session](std::exception_ptr e) {
        if (e) { // allocation failures; I/O comes as values
          spdlog::error("a connection ended with an exception");
        }
      });
  return true;
}

} // namespace baton::gateway
