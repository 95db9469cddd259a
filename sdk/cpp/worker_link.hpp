// A worker's end of the worker door (docs/reference/protocol.md): hello, heartbeats, batches,
// credit. A thread owns the socket; the handler's thread takes batches and puts pieces.
//
//   connecting --hello_ack--> open --silence, disconnect, gap--> connecting  (what was open is
//   void) open --leave--> leaving --drain--> released connecting --refusal--> lost
#pragma once

#include "schema/codec.hpp"
#include "sdk/cpp/door_socket.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

namespace baton::sdk {

struct link_place {
  std::string endpoint;
  process_id process;
  epoch_id incarnation;
  std::string name;
};

// Of one connection: pieces by another are not heard.
struct linked_batch {
  std::uint64_t life = 0;
  std::vector<infer> items;
};

class worker_link {
public:
  explicit worker_link(link_place place);
  ~worker_link();

  // Nothing: the worker has left. Errors: what ended the link for good.
  result<std::optional<linked_batch>> next_batch();
  bool is_cancelled(std::uint64_t life, std::uint64_t request);
  // Waits for credit. False: the door has lost this batch, nobody would hear it.
  bool put(std::uint64_t life, inferred piece);
  // No further batch; next_batch says so once the door has what this one answered. Any thread.
  void leave();

private:
  using clock = std::chrono::steady_clock;

  void run(const std::stop_token& stop);
  // Until it is released (no error), or lost.
  result<void> serve(const std::stop_token& stop);
  result<void> hear_all();
  result<void> take(const envelope& head, message m);
  bool say_queued();
  // Its bytes; nothing: ZeroMQ has no room now.
  std::optional<std::uint64_t> say(const message& m);
  bool was_open(); // the connection that is lost
  // True: it is over.
  bool judge(const result<void>& how);

  const link_place place_;
  door_socket socket_;
  // The socket thread's.
  process_id door_;
  epoch_id door_incarnation_;
  std::uint64_t sequence_in_ = 0;
  std::uint64_t sequence_out_ = 0;
  // Everybody's.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t life_ = 0; // of connections
  bool is_open_ = false;
  std::deque<linked_batch> batches_;
  std::set<std::uint64_t> cancelled_;
  struct queued {
    message m;
    std::uint64_t bytes = 0; // of credit, as it was reckoned before it was encoded
  };
  std::deque<queued> queued_;
  std::uint64_t sent_bytes_ = 0; // and queued
  std::uint64_t credited_bytes_ = 0;
  std::uint64_t window_bytes_ = 0;
  bool is_leaving_ = false;
  bool is_told_ = false; // the door, that we leave
  bool is_released_ = false;
  std::optional<error> lost_;
  std::jthread thread_; // last: it uses all of the above
};

} // namespace baton::sdk
