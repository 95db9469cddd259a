// One DEALER to the gateway and the thread that owns it: hello, heartbeats, credit, and an inbox
// per open request. Used by client and stream; independent of the contents of chunks.
//
//   connecting --hello_ack--> open --silence, disconnect, gap--> coming back --served--> open
//   connecting --refusal, timeout--> (no connection)                  |
//   lost: every inbox fails with why <--reconnect_timeout, bad frame--+
//
// The client reconnects with a new socket and a new incarnation. The server first ends the old
// incarnation's requests, then receives the resumed ones. Streams resume after the chunks in their
// inboxes; unanswered requests are sent again. All keep their numbers. A connection that is
// lost soon after it opened continues the pauses of the last loss. It continues the deadline, too,
// if nothing was answered: a request may be what loses it each time.
#pragma once

#include "schema/codec/codec.hpp"
#include "sdk/cpp/baton/client.hpp"
#include "sdk/cpp/inbox.hpp"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

namespace baton::sdk {

class dealer_socket;

class connection {
public:
  static result<std::shared_ptr<connection>> open(const std::string& endpoint,
                                                  const client_options& options);
  connection(std::string endpoint, const client_options& options); // for open()
  ~connection(); // sends what is still queued (cancel), then closes
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;

  // Gives the question a request number and an inbox, and sends it now or after a reconnect.
  std::uint64_t ask(message question);
  // Next answer to `request`. Errors: deadline_exceeded, link_down and other reasons of the loss.
  result<message> take(std::uint64_t request, std::chrono::milliseconds deadline);
  // Cancels `request` at the server; a generation as soon as its ticket is known.
  void cancel(std::uint64_t request);
  // No more answers are wanted: later ones are received and dropped.
  void forget(std::uint64_t request);
  ticket_id ticket_of(std::uint64_t request) const;
  bool is_open() const;

private:
  using clock = std::chrono::steady_clock;

  struct received_message {
    envelope head;
    message content;
    std::size_t data_bytes = 0; // counted against credit
  };

  void connect();
  result<void> greet(clock::time_point deadline, const std::stop_token& stop);
  result<void> await_model(clock::time_point deadline, const std::stop_token& stop);
  void resend_open();
  // Attempts to reconnect: the first one at once, then after growing pauses.
  struct attempts {
    clock::time_point deadline;
    std::chrono::milliseconds pause{0};
  };
  result<void> reconnect(const error& why, attempts& left, const std::stop_token& stop);
  // After a loss of the connection that opened at `opened_at`: continues those of the last loss, or
  // begins anew.
  void prepare(attempts& left, clock::time_point opened_at);
  void run(const std::stop_token& stop);
  result<void> serve(const std::stop_token& stop);
  result<void> run_once(clock::time_point& heartbeat_due, clock::time_point& silent_since);
  result<bool> send_queued();
  result<std::optional<received_message>> receive();
  result<message> await_reply(clock::time_point deadline, const std::stop_token& stop);
  result<void> receive_all(clock::time_point& silent_since);
  result<void> deliver(message m, std::size_t bytes);
  void enqueue(message m);                     // with mutex_ held
  void end(std::uint64_t request, inbox& box); // with mutex_ held
  void give_back(std::size_t bytes);           // with mutex_ held
  void disconnect();
  void lose(error why);
  frames framed(const message& m);

  std::string endpoint_;
  client_options options_;
  std::unique_ptr<dealer_socket> socket_; // owned by the thread once it runs
  process_id process_;
  incarnation_id incarnation_;
  process_id server_;
  incarnation_id server_incarnation_;
  std::uint64_t window_bytes_ = 0;
  std::uint64_t sequence_out_ = 0;
  std::uint64_t sequence_in_ = 0;
  std::uint64_t heartbeats_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::uint64_t, inbox> inboxes_;
  std::deque<message> queued_;
  std::uint64_t requests_ = 0;
  std::uint64_t arrived_bytes_ = 0;
  std::uint64_t credited_bytes_ = 0;
  bool is_connected_ = true; // false: reconnecting, or lost
  bool is_answered_ = false; // something was, on this connection
  std::optional<error> lost_;

  std::jthread thread_; // last: joined before the members that it uses are destroyed
};

} // namespace baton::sdk
