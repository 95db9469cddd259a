// The worker side of the worker protocol (docs/reference/protocol.md): hello, heartbeats, batches,
// credit. A thread owns the socket; the handler's thread takes batches and puts pieces.
//
//   connecting --hello_ack--> open --silence, disconnect, gap--> connecting  (what was open is
//   void) open --leave--> leaving --drain--> released connecting --refusal--> lost
#pragma once

#include "schema/codec/codec.hpp"
#include "sdk/cpp/dealer_socket.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

namespace baton::sdk {

struct link_settings {
  std::string endpoint;
  process_id process;
  incarnation_id incarnation;
  std::string name;
};

// Belongs to one connection; pieces sent over another one are ignored.
struct linked_batch {
  std::uint64_t connection_number = 0;
  std::vector<infer> items;
};

class worker_link {
public:
  explicit worker_link(link_settings settings);
  ~worker_link();

  // Nothing: the worker has left. Errors: the reason why the link ended permanently.
  result<std::optional<linked_batch>> next_batch();
  bool is_cancelled(std::uint64_t connection_number, std::uint64_t request);
  // Waits for credit. False: the server has lost this batch and would drop the piece.
  bool put(std::uint64_t connection_number, inferred piece);
  // Accepts no further batch; next_batch returns nothing once the answers are sent. Any thread.
  void leave();

private:
  using clock = std::chrono::steady_clock;

  void run(const std::stop_token& stop);
  // Runs until it is released (no error), or lost.
  result<void> serve(const std::stop_token& stop);
  result<void> receive_all();
  result<void> take(const envelope& head, message m);
  bool send_queued();
  // Returns its bytes; nothing: ZeroMQ has no room now.
  std::optional<std::uint64_t> send(const message& m);
  bool was_steady(); // the connection just lost
  // True: it is over.
  bool judge(const result<void>& how);

  const link_settings settings_;
  dealer_socket socket_;
  // Used by the socket thread alone.
  process_id server_;
  incarnation_id server_incarnation_;
  std::uint64_t sequence_in_ = 0;
  std::uint64_t sequence_out_ = 0;
  // Shared, under mutex_.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t connection_number_ = 0; // grows by one with each connection
  bool is_open_ = false;
  std::chrono::steady_clock::time_point opened_at_;
  std::deque<linked_batch> batches_;
  std::set<std::uint64_t> cancelled_;
  struct queued {
    message m;
    std::uint64_t bytes = 0; // of credit, estimated before encoding
  };
  std::deque<queued> queued_;
  std::uint64_t sent_bytes_ = 0; // including queued
  std::uint64_t credited_bytes_ = 0;
  std::uint64_t window_bytes_ = 0;
  bool is_leaving_ = false;
  bool has_sent_drain_ = false; // the server knows that we leave
  bool is_released_ = false;
  std::optional<error> lost_;
  std::jthread thread_; // last: uses all members above
};

} // namespace baton::sdk
