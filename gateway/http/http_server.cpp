// Heavy: Asio.
#include "gateway/http/http_server.hpp"

#include "gateway/base/request_id.hpp"
#include "gateway/http/http_connection.hpp"
#include "gateway/http/listener.hpp"
#include "gateway/state/refusal.hpp"
#include "gateway/state/request_guard.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <spdlog/spdlog.h>

#include <thread>
#include <utility>
#include <vector>

namespace baton::gateway {
namespace {

// Refuses a connection beyond the limit, in one write; a full socket loses it.
void refuse_connection(const gateway_state& facts, listener_kind kind, tcp::socket& socket) {
  const auto full = fail(errc::overloaded, "the server has as many connections as it may have");
  const auto reply =
      family_of(kind).refusal(refuse_here(full, *facts.look()), facts.config().overload_status);
  const auto bytes = render(reply, {.is_http_1_0 = false,
                                    .keeps_alive = false,
                                    .is_head = false,
                                    .request_id = new_request_id()});
  error_code ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(asio::buffer(bytes), ignored);
  socket.shutdown(tcp::socket::shutdown_send, ignored);
  socket.close(ignored);
}

// A certificate that expires sooner deserves a remark.
constexpr std::chrono::system_clock::duration certificate_soon = std::chrono::hours(24 * 14);

} // namespace

struct http_server::wall {
  server_context core;
  http_api api;
  std::vector<std::unique_ptr<listener>> listeners; // `http` first
  std::vector<std::thread> threads;

  wall(const request_router_actor& router, std::shared_ptr<gateway_state> facts)
      : core(router, facts, static_cast<int>(facts->config().threads)), api(facts) {}

  result<void> bind();
  asio::awaitable<void> listen(listener& at);
  void take(listener& at, tcp::socket& socket); // its client
  asio::awaitable<void> wait_informed(listener& at);
  void run();
};

result<void> http_server::wall::bind() {
  const auto& config = core.config();
  if (!config.tls_certificate.empty()) {
    auto store = certificate_store::open(config.tls_certificate, config.tls_key);
    if (!store) {
      return store.error();
    }
    core.tls = *std::move(store);
  }
  const auto where = read_addresses(config);
  if (!where) {
    return where.error();
  }
  for (const auto& at : *where) {
    if (at.is_grpc) {
      continue;
    }
    listeners.push_back(std::make_unique<listener>(core.io, at.kind, at.param));
    if (auto ok = listeners.back()->bind(at, at.is_shared); !ok) {
      return ok;
    }
  }
  return {};
}

// Connections wait in the system's queue until this gateway knows who serves; it would refuse their
// requests. It listens at a shared address only then: another gateway can take the connections.
asio::awaitable<void> http_server::wall::wait_informed(listener& at) {
  asio::steady_timer timer(at.acceptor.get_executor());
  while (!core.connections.is_stopping() && !core.facts->is_informed()) {
    timer.expires_after(heads_look_interval);
    co_await timer.async_wait(as_values);
  }
  if (!at.is_shared) {
    co_return;
  }
  error_code ec;
  at.acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (ec) {
    spdlog::error("cannot listen on {}: {}", at.address(), ec.message());
  }
}

void http_server::wall::take(listener& at, tcp::socket& socket) {
  // While the server stops, new connections are cut like all others.
  if (start_http_session(core, api, at.kind, socket) || core.connections.is_stopping()) {
    return;
  }
  core.facts->metrics().refused("http", errc::overloaded);
  if (is_for_tls(at.kind) && core.tls) {
    error_code ignored;
    socket.close(ignored); // a TLS client would not understand plain text
  } else {
    refuse_connection(*core.facts, at.kind, socket);
  }
}

asio::awaitable<void> http_server::wall::listen(listener& at) {
  co_await wait_informed(at);
  // Out of file descriptors: wait for a free one instead of spinning.
  constexpr std::chrono::milliseconds retry_interval{100};
  asio::steady_timer timer(at.acceptor.get_executor());
  bool was_failing = false;
  while (at.acceptor.is_open() && !core.connections.is_stopping()) {
    asio::any_io_executor strand = asio::make_strand(core.io);
    auto [ec, socket] = co_await at.acceptor.async_accept(strand, as_values);
    if (ec == asio::error::operation_aborted) {
      co_return;
    }
    if (std::exchange(was_failing, ec.failed()) != was_failing && was_failing) {
      spdlog::warn("accept failed, and is tried again: {}", ec.message());
    }
    if (ec) {
      timer.expires_after(retry_interval);
      co_await timer.async_wait(as_values);
      continue;
    }
    const auto fault = guarded("http", [&, &client = socket] { take(at, client); });
    if (fault) {
      socket.close(ec);
    }
  }
}

void http_server::wall::run() {
  for (const auto& at : listeners) {
    asio::co_spawn(at->acceptor.get_executor(), listen(*at), asio::detached);
  }
  for (std::uint32_t i = 0; i < core.config().threads; ++i) {
    threads.emplace_back([this] {
      while (guarded("http",
                     [this] { core.io.run(); })) { // the fault of one handler; the others continue
      }
    });
  }
}

result<void> http_server::check_free(const gateway_config& config) {
  const auto where = read_addresses(config);
  if (!where) {
    return where.error();
  }
  asio::io_context io;
  for (const auto& at : *where) {
    if (auto ok = listener(io, at.kind, at.param).bind(at, false); !ok) {
      return ok;
    }
  }
  return {};
}

std::vector<http_server::remark> http_server::remarks(const gateway_config& config,
                                                      std::chrono::system_clock::time_point now) {
  std::vector<remark> all;
  if (!config.tls_certificate.empty()) {
    const auto tls = tls_context::load(config.tls_certificate, config.tls_key);
    const auto left = tls ? (*tls)->ends_at() - now : certificate_soon;
    const auto days = std::chrono::duration_cast<std::chrono::hours>(left).count() / 24;
    if (left < certificate_soon) {
      all.push_back({left.count() < 0 ? fmt::format("{}: the certificate has ended, {} days ago",
                                                    config.tls_certificate, -days)
                                      : fmt::format("{}: the certificate ends in {} days",
                                                    config.tls_certificate, days),
                     "replace the file: the gateway takes the new one, open streams go on"});
    }
    return all;
  }
  const auto where = read_addresses(config);
  if (!where || !config.keys) {
    return all;
  }
  for (const auto& at : *where) {
    if (!at.endpoint.address().is_loopback()) {
      all.push_back({fmt::format("API keys cross the network to {} in clear", at.text),
                     "set gateway.tls_certificate and gateway.tls_key, unless what is in front of "
                     "it speaks TLS"});
    }
  }
  return all;
}

result<void> http_server::check(const gateway_config& config) {
  if (const auto where = read_addresses(config); !where) {
    return where.error();
  }
  if (config.tls_certificate.empty()) {
    return {};
  }
  const auto tls = tls_context::load(config.tls_certificate, config.tls_key);
  return tls ? result<void>() : tls.error();
}

http_server::http_server(std::unique_ptr<wall> w) : wall_(std::move(w)) {}

http_server::~http_server() {
  stop();
}

result<std::unique_ptr<http_server>> http_server::start(const request_router_actor& router,
                                                        std::shared_ptr<gateway_state> facts) {
  if (facts->config().threads == 0) {
    return fail_param(errc::bad_config, "threads", "the gateway needs at least one thread");
  }
  auto w = std::make_unique<wall>(router, std::move(facts));
  if (auto ok = w->bind(); !ok) {
    return ok.error();
  }
  w->run();
  return std::make_unique<http_server>(std::move(w));
}

std::string http_server::url(listener_kind kind) const {
  for (const auto& at : wall_->listeners) {
    if (at->kind == kind) {
      return (is_for_tls(kind) && wall_->core.tls ? "https://" : "http://") + at->address();
    }
  }
  return {};
}

result<void> http_server::reload_certificate() {
  return wall_->core.tls ? wall_->core.tls->reload() : result<void>();
}

void http_server::stop() {
  const auto close = [](listener& at) {
    asio::post(at.acceptor.get_executor(), [&at] {
      error_code ignored;
      at.acceptor.close(ignored);
    });
  };
  for (const auto& at : wall_->listeners) {
    close(*at);
  }
  wall_->core.connections.stop_all();
  for (auto& t : wall_->threads) {
    t.join(); // each ends when no connection and no timer is left
  }
  wall_->threads.clear();
}

} // namespace baton::gateway
