// Shared by HTTP and WebSocket sessions: a bell wakes a coroutine from another thread, a watchdog
// bounds every wait, a table lists open connections. Each connection has a strand. Heavy: Asio.
#pragma once

#include "gateway/admission/admission.hpp"
#include "gateway/api/responses/response_store.hpp"
#include "gateway/connections/client_socket.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace baton::gateway {

// I/O errors come as values, never as exceptions.
inline constexpr auto as_values = asio::as_tuple(asio::use_awaitable);

// Wakes the one coroutine that waits on it. Any thread may call `ring`; at most one wake-up is
// pending. The other members run on the strand.
class bell : public std::enable_shared_from_this<bell> {
public:
  explicit bell(asio::any_io_executor strand);
  void ring();
  // Waits until it has rung since the last wait, or for `limit`.
  asio::awaitable<void> wait(std::chrono::milliseconds limit);
  // Called on the strand after each ring. It must not own the bell; clear it on leaving.
  void on_ring(std::function<void()> f) { on_ring_ = std::move(f); }

private:
  asio::any_io_executor strand_;
  asio::steady_timer timer_;
  std::atomic<bool> is_rung_{false};
  std::function<void()> on_ring_;
};

// A deadline for the connection's next operation. Strand only.
class watchdog : public std::enable_shared_from_this<watchdog> {
public:
  watchdog(const asio::any_io_executor& strand, std::function<void()> on_expiry);
  void arm(std::chrono::milliseconds limit);
  void disarm();
  bool has_expired() const noexcept { return has_expired_; }
  // Disarms it permanently and drops `on_expiry`.
  void retire();

private:
  asio::steady_timer timer_;
  std::function<void()> on_expiry_;
  std::uint64_t round_ = 0; // a timer of an earlier round is ignored
  bool has_expired_ = false;
};

// One table for all connections of a server. Sessions enter and leave it; `stop_all` ends them.
class connection_table {
public:
  // `stop` is called once, from any thread, if the server stops before the connection ends. Returns
  // nothing if connections_max are open or the server is stopping.
  std::optional<std::uint64_t> enter(std::function<void()> stop, std::size_t connections_max);
  void replace(std::uint64_t id, std::function<void()> stop);
  void leave(std::uint64_t id);
  void stop_all();
  bool is_stopping() const noexcept { return is_stopping_; }

private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::function<void()>> stops_;
  std::uint64_t last_id_ = 0;
  std::atomic<bool> is_stopping_{false};
};

// The server state that sessions use. Outlives all sessions.
struct server_context {
  std::shared_ptr<gateway_state> facts;
  admission http;
  admission websocket;
  connection_table connections;
  response_store responses;
  std::shared_ptr<certificate_store> tls; // of the client listener; null: plain
  asio::io_context io;

  server_context(const request_router_actor& router, std::shared_ptr<gateway_state> b, int threads)
      : facts(b), http(router, b, "http"), websocket(router, b, "websocket"),
        responses(b->config().responses), io(threads) {}
  const gateway_config& config() const noexcept { return facts->config(); }
};

// Registration of one connection; its destructor removes it.
class table_entry {
public:
  table_entry(server_context& core, std::uint64_t id) : core_(&core), id_(id) {
    core.facts->metrics().connection_opened();
  }
  ~table_entry() {
    core_->connections.leave(id_);
    core_->facts->metrics().connection_closed();
  }
  table_entry(const table_entry&) = delete;
  table_entry& operator=(const table_entry&) = delete;
  std::uint64_t id() const noexcept { return id_; }

private:
  server_context* core_;
  std::uint64_t id_;
};

// Waits on `wake` for the next event of a request or of several. Nothing if `is_over` returns true.
template <class Open> // open_request or open_requests
asio::awaitable<std::optional<stream_event>> next_event(Open& request, bell& wake,
                                                        std::function<bool()> is_over) {
  constexpr std::chrono::hours no_limit{24};
  while (!is_over()) {
    if (auto event = request.next()) {
      co_return event;
    }
    co_await wake.wait(no_limit);
  }
  co_return std::nullopt;
}

} // namespace baton::gateway
