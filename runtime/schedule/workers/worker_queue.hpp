// Assigns batches of requests to the workers of one model, and handles workers that end or hang and
// clients that leave. Pure: time is an argument, orders are output; no process, no socket.
//
// A request:
//   waiting --queue timeout--> refused (queue_timeout), or behind the others of its level
//   waiting --batch--> running --last piece--> done
//      ^                | |
//      |                | +--client leaves, deadline--> abandoned --last piece, worker gone--> done
//      |                |
//      +--worker gone---+--worker gone after a piece: worker_lost; the second time: quarantined
//      before any piece |
//      (it goes alone)  +--no piece for response_timeout: deadline_exceeded
// The states of a worker: worker_table.hpp.
#pragma once

#include "runtime/schedule/workers/worker_limits.hpp"
#include "runtime/schedule/workers/worker_table.hpp"
#include "schema/limits.hpp"
#include "schema/result.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace baton::schedule {

// The orders for the owner, in sequence.
struct start_batch {
  worker_incarnation worker;
  std::uint64_t batch = 0;
  std::vector<std::uint64_t> requests;
};
struct end_request {
  std::uint64_t request = 0;
  error why;
};
struct abandon_request { // its pieces are no longer wanted
  worker_incarnation worker;
  std::uint64_t request = 0;
};
struct fence_worker {
  worker_incarnation worker;
  std::string why;
};
struct release_worker { // it is leaving and has no open requests
  worker_incarnation worker;
};
using worker_order =
    std::variant<start_batch, end_request, abandon_request, fence_worker, release_worker>;

class worker_queue {
public:
  using instant = std::chrono::steady_clock::time_point;

  explicit worker_queue(worker_limits limits)
      : limits_(std::move(limits)), queue_(limits_.policies()) {}

  struct new_request {
    std::uint64_t request = 0; // unique
    std::size_t bytes = 0;     // its size in a message
    std::optional<instant> deadline{};
    std::uint64_t priority = 0;                 // 0: the default level's
    std::chrono::microseconds queue_timeout{0}; // shorter than its level's; 0: not given
    bool goes_alone = false;                    // in a batch of its own
  };
  // Errors: invalid_value (a priority or timeout not allowed by its model), overloaded,
  // no_job_ticket; then it was not enqueued.
  result<void> enter(const new_request& a, instant now);
  // Its client has left. No effect if it has ended.
  void cancel(std::uint64_t request, instant now);

  // A new incarnation of a process ends the previous one; a repeated one has lost its requests.
  void worker_up(worker_incarnation worker, instant now);
  void worker_gone(worker_incarnation worker, const std::string& how, instant now);
  void worker_leaves(worker_incarnation worker);
  // Its transport is silent: treated as gone, unless it is busy, which may keep it from sending.
  // True if it was treated as gone.
  bool worker_silent(worker_incarnation worker, instant now);

  // A piece arrived. True: deliver it. False for abandoned requests and ended incarnations.
  bool take_piece(worker_incarnation worker, std::uint64_t request, std::uint32_t index,
                  bool is_last, instant now);

  // Handles deadlines, and starts batches whose first request has waited long enough.
  void tick(instant now);
  // When a partial batch starts, or a request times out. Otherwise regular ticks suffice.
  std::optional<instant> due() const;
  std::vector<worker_order> take_orders() { return std::exchange(orders_, {}); }

  std::size_t waiting() const noexcept { return queue_.size(); }
  std::size_t running() const noexcept { return entries_.size() - queue_.size(); }
  std::size_t workers() const noexcept { return workers_.taking(); } // that take requests
  std::vector<worker_incarnation> incarnations() const { return workers_.incarnations(); }
  // Invariants after every call (ENSURE).
  void check_integrity() const;

private:
  struct entry {
    std::size_t bytes = 0;
    instant arrived;
    std::optional<instant> deadline;
    std::uint32_t losses = 0;     // workers that ended while processing it
    std::uint32_t next_index = 0; // of its next piece
    std::optional<worker_incarnation> worker;
    bool goes_alone = false;
    bool is_abandoned = false;
  };
  using worker = worker_table::worker;

  batch_candidates next_batch() const;
  void form_batches(instant now);
  void expire(instant now);
  void begin(process_id process, worker& at, std::size_t count, instant now);
  void end(std::uint64_t request, error why);
  void end_at_worker(const std::vector<std::uint64_t>& open, const error& why);
  void lose(std::uint64_t request, const std::string& how);
  void fence(process_id process, worker& w, std::string why);
  void finish_item(process_id process, worker& w, std::uint64_t request);
  void release_if_done(process_id process, const worker& w);
  void end_late(instant now);
  void end_unserved(instant now);
  void watch_workers(instant now);

  worker_limits limits_;
  std::unordered_map<std::uint64_t, entry> entries_;
  request_queue queue_;
  worker_table workers_;
  std::optional<instant> absent_since_; // none: some worker takes requests, or not checked yet
  std::uint64_t batches_ = 0;
  std::vector<worker_order> orders_;
};

} // namespace baton::schedule
