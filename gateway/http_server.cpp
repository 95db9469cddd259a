// Heavy: Asio.
#include "gateway/http_server.hpp"

#include "gateway/connection.hpp"
#include "gateway/http_session.hpp"
#include "gateway/refusal.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <spdlog/spdlog.h>

#include <charconv>
#include <thread>
#include <vector>

namespace baton::gateway {
namespace {

struct address_text {
  std::string host;
  std::string port;
};

// "127.0.0.1:8000", "[::1]:8000", "localhost:8000"
result<address_text> split_address(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size()) {
    return fail_param(errc::bad_config, "http", "'{}' is not an address: write HOST:PORT", text);
  }
  auto host = text.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return address_text{host == "localhost" ? "127.0.0.1" : host, text.substr(colon + 1)};
}

result<tcp::endpoint> parse_endpoint(const std::string& text) {
  const auto parts = split_address(text);
  if (!parts) {
    return parts.error();
  }
  error_code ec;
  const auto address = asio::ip::make_address(parts->host, ec);
  std::uint16_t port = 0;
  const auto* end = parts->port.data() + parts->port.size();
  const auto [stop, bad] = std::from_chars(parts->port.data(), end, port);
  if (ec || bad != std::errc{} || stop != end) {
    return fail_param(errc::bad_config, "http",
                      "'{}' is not an address: write an IP address, ':' and a port below 65536",
                      text);
  }
  return tcp::endpoint(address, port);
}

// Said to a connection beyond the limit, in one write; a full socket loses it.
void turn_away(const board& facts, tcp::socket& socket) {
  const auto full = fail(errc::overloaded, "the server has as many connections as it may have");
  const auto reply =
      refusal_reply(refuse_here(full, *facts.look()), facts.config().overload_status);
  const auto bytes = render(reply, {.is_http_1_0 = false, .keeps_alive = false, .is_head = false});
  error_code ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(asio::buffer(bytes), ignored);
  socket.shutdown(tcp::socket::shutdown_send, ignored);
  socket.close(ignored);
}

} // namespace

struct http_server::wall {
  door_core core;
  tcp::acceptor acceptor;
  tcp::endpoint bound;
  std::vector<std::thread> threads;

  wall(const desk_actor& desk, std::shared_ptr<board> facts)
      : core(desk, facts, static_cast<int>(facts->config().threads)),
        acceptor(asio::make_strand(core.io)) {}

  result<void> bind(const tcp::endpoint& endpoint, const std::string& text);
  asio::awaitable<void> listen();
  void run();
};

result<void> http_server::wall::bind(const tcp::endpoint& endpoint, const std::string& text) {
  error_code ec;
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) {
    acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
    acceptor.bind(endpoint, ec);
  }
  if (!ec) {
    acceptor.listen(asio::socket_base::max_listen_connections, ec);
  }
  if (ec == asio::error::address_in_use) {
    return fail_param(errc::address_in_use, "http", "{} is in use by another process", text);
  }
  if (ec) {
    return fail_param(errc::io_failed, "http", "cannot listen on {}: {}", text, ec.message());
  }
  bound = acceptor.local_endpoint(ec);
  return {};
}

asio::awaitable<void> http_server::wall::listen() {
  // Out of file descriptors: wait for one to come back instead of spinning.
  constexpr std::chrono::milliseconds retry_interval{100};
  asio::steady_timer timer(acceptor.get_executor());
  while (acceptor.is_open() && !core.connections.is_stopping()) {
    asio::any_io_executor strand = asio::make_strand(core.io);
    auto [ec, socket] = co_await acceptor.async_accept(strand, as_values);
    if (ec == asio::error::operation_aborted) {
      co_return;
    }
    if (ec) {
      spdlog::warn("accept failed: {}", ec.message());
      timer.expires_after(retry_interval);
      co_await timer.async_wait(as_values);
      continue;
    }
    if (!start_http_session(core, socket)) {
      core.facts->metrics().refused("http", errc::overloaded);
      turn_away(*core.facts, socket);
    }
  }
}

void http_server::wall::run() {
  asio::co_spawn(acceptor.get_executor(), listen(), asio::detached);
  for (std::uint32_t i = 0; i < core.config().threads; ++i) {
    threads.emplace_back([this] { core.io.run(); });
  }
}

http_server::http_server(std::unique_ptr<wall> w) : wall_(std::move(w)) {}

http_server::~http_server() {
  stop();
}

result<std::unique_ptr<http_server>> http_server::start(const desk_actor& desk,
                                                        std::shared_ptr<board> facts) {
  const auto text = facts->config().http;
  if (facts->config().threads == 0) {
    return fail_param(errc::bad_config, "threads", "the gateway needs at least one thread");
  }
  const auto endpoint = parse_endpoint(text);
  if (!endpoint) {
    return endpoint.error();
  }
  auto w = std::make_unique<wall>(desk, std::move(facts));
  if (auto ok = w->bind(*endpoint, text); !ok) {
    return ok.error();
  }
  w->run();
  return std::make_unique<http_server>(std::move(w));
}

std::string http_server::url() const {
  const auto& e = wall_->bound;
  const auto host =
      e.address().is_v6() ? "[" + e.address().to_string() + "]" : e.address().to_string();
  return fmt::format("http://{}:{}", host, e.port());
}

void http_server::stop() {
  asio::post(wall_->acceptor.get_executor(), [w = wall_.get()] {
    error_code ignored;
    w->acceptor.close(ignored);
  });
  wall_->core.connections.stop_all();
  for (auto& t : wall_->threads) {
    t.join(); // each ends when no connection and no timer is left
  }
  wall_->threads.clear();
}

} // namespace baton::gateway
