// One HTTP connection below the protocol: its strand, writes with a deadline, and detection of a
// client that hangs up before its answer is complete. Used by http_session (which parses requests)
// and http_answers (which writes answers). Heavy: Asio.
#pragma once

#include "gateway/admission/open_requests.hpp"
#include "gateway/auth/crash_record.hpp"
#include "gateway/connections/connection.hpp"
#include "gateway/request/http_call.hpp"

#include <boost/asio/cancellation_signal.hpp>
#include <boost/beast/core/flat_buffer.hpp>

#include <string>

namespace baton::gateway {

class http_api;

// The next step of a connection after an answer.
enum class after : std::uint8_t { next_request, close, linger, handed_over };

class http_connection : public std::enable_shared_from_this<http_connection> {
public:
  using clock = std::chrono::steady_clock;

  http_connection(server_context& core, listener_kind listener, tcp::socket socket,
                  std::uint64_t id);

  // Call it once, first.
  void prepare();
  // Whether the client must speak TLS.
  bool is_to_be_secured() const noexcept { return is_for_tls(listener_) && core_.tls; }
  // Call it once, last. Closes the socket unless it was handed over.
  void retire(after how);
  void stop(); // from any thread: ends the current operation

  asio::awaitable<bool> write(std::string_view bytes);
  // Writes a whole answer and counts it. `closes`: the connection has no known next request.
  asio::awaitable<after> reply(const http_reply& r, bool closes = false);
  // The client may still be sending: closing now would reset the connection under our answer.
  asio::awaitable<void> linger();

  // Reads ahead before the answer is complete, so that a hang-up is seen at once. The buffer keeps
  // what the client sends ahead, as far as it has room.
  void watch_client();
  void unwatch_client();
  bool is_over() const noexcept { return is_client_gone_ || is_stopping_; }
  bool is_client_gone() const noexcept { return is_client_gone_; }
  bool is_stopping() const noexcept { return is_stopping_; }

  // Rings this connection's bell. Any thread.
  std::function<void()> wake() const {
    return [b = bell_] { b->ring(); };
  }
  // Set while a stream is written: if it is cut while a write hangs, the write gets cut_grace and
  // no more.
  void set_stream(const open_requests* stream);
  template <class Open> // as next_event
  asio::awaitable<std::optional<stream_event>> next(Open& open) {
    return next_event(open, *bell_, [this] { return is_over(); });
  }
  const std::string& address() const noexcept { return address_; } // HOST:PORT
  // The client of the current request, once `who` is known.
  gateway::crash_client crash_client() const noexcept { return {who.name(), address_}; }
  // Notes for a crash record whose request this thread handles. For synchronous work only.
  crash_record::handling handling() const { return {core_.facts->crashes(), crash_client()}; }
  void count_request(int status);
  // A request's header was read, or is invalid; `path` has no query.
  void begin_request(std::string_view path);
  // The request was answered, or its client is gone. Writes its line of the access log.
  void end_request();

  server_context& core() noexcept { return core_; }
  listener_kind listener() const noexcept { return listener_; }
  const http_limits& limits() const noexcept { return core_.config().http_bounds; }
  client_socket& socket() noexcept { return socket_; }
  bell& bell_of() noexcept { return *bell_; }
  watchdog& deadline() noexcept { return *watchdog_; }
  boost::beast::flat_buffer& buffer() noexcept { return buffer_; }

  // State of the current request, set by the session.
  reply_framing framing;
  bool has_begun_answer = false; // a part has been written
  std::string route = "other";
  std::string_view method = "other"; // known_method's
  principal who;
  std::string model; // that was requested; empty: none
  clock::time_point started_at;

private:
  void on_readable();

  server_context& core_;
  const listener_kind listener_;
  table_entry entry_;
  client_socket socket_;
  std::shared_ptr<bell> bell_;
  std::shared_ptr<watchdog> watchdog_;
  boost::beast::flat_buffer buffer_;
  const open_requests* stream_ = nullptr;
  std::string address_;
  // Fields of the current request's line in the access log.
  std::string path_;
  std::string key_;
  int status_ = 0;
  std::uint64_t bytes_ = 0;
  std::optional<request_usage> usage_;
  bool is_writing_ = false;
  bool is_client_gone_ = false;
  bool is_stopping_ = false;
  bool is_watching_ = false;
  std::uint64_t watch_round_ = 0;
  asio::cancellation_signal watch_signal_;
};

// Takes the socket and serves its requests on its strand until it ends (http_session.cpp). Returns
// false and does not touch the socket if connections_max are open; the operator's listener has a
// few more.
bool start_http_session(server_context& core, const http_api& api, listener_kind listener,
                        tcp::socket& socket);

} // namespace baton::gateway
