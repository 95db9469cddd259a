// Which worker of one model does which requests together, and what becomes of them when it ends,
// hangs, or its client leaves. Pure: time is given, orders are taken out; no process, no socket.
//
// A request:
//   waiting --queue timeout--> refused (queue_timeout), or behind the others of its level
//   waiting --batch--> running --last piece--> (done)
//      ^                | |
//      |                | +--client leaves, deadline--> abandoned --last piece, worker gone-->
//      (done) |  worker gone,  |
//      +- nothing told, +--worker gone: something was told: worker_lost
//         first time    |                second time: quarantined
//         (goes alone)  +--no piece for response_timeout: deadline_exceeded
//
// A worker (one life of it):
//   idle --start_batch--> busy --last piece of all--> idle
//   idle, busy --leaves--> leaving --nothing open--> released (no further batch)
//   busy --no piece for response_timeout, pieces out of order--> fenced (no further batch; whoever
//          supervises it is asked to end it) --gone, another life--> forgotten
#pragma once

#include "runtime/schedule/waiting_line.hpp"
#include "schema/ids.hpp"
#include "schema/limits.hpp"
#include "schema/result.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace baton::schedule {

// TorchServe's names and defaults, where it has them; those of Triton's dynamic batcher for the
// rest.
struct worker_limits {
  std::uint32_t batch_size = 1;                        // requests that are answered together
  std::chrono::microseconds max_batch_delay{100'000};  // that the first of a batch waits for others
  std::size_t max_queued = 100;                        // requests that wait; job_queue_size
  std::chrono::milliseconds response_timeout{120'000}; // from piece to piece
  bool use_job_ticket = false; // taken only if a worker has a place for it now
  // How long requests wait while there is no worker: a restart takes less.
  std::chrono::milliseconds absence_max{30'000};
  // Ascending, none beyond batch_size: the largest that can be made goes at once.
  std::vector<std::uint32_t> preferred_batch_sizes{};
  bool preserve_ordering = false;           // answers leave as requests came (answer_order.hpp)
  std::uint32_t priority_levels = 0;        // 0: requests have no priority; 1 is the highest
  std::uint32_t default_priority_level = 0; // of requests that say none; one of the levels
  queue_policy default_queue_policy{};
  std::map<std::uint32_t, queue_policy> priority_queue_policy{}; // by level

  // Of each level; one if there are none.
  std::vector<queue_policy> policies() const;
};

// One life of a worker process.
struct worker_life {
  node_id node;
  epoch_id epoch;
  friend constexpr auto operator<=>(const worker_life&, const worker_life&) = default;
};

// What the owner is to do, in order.
struct start_batch {
  worker_life worker;
  std::uint64_t batch = 0;
  std::vector<std::uint64_t> requests;
};
struct end_request {
  std::uint64_t request = 0;
  error why;
};
struct abandon_request { // its pieces are wanted no more
  worker_life worker;
  std::uint64_t request = 0;
};
struct fence_worker {
  worker_life worker;
  std::string why;
};
struct release_worker { // it has left: nothing of it is open
  worker_life worker;
};
using worker_order =
    std::variant<start_batch, end_request, abandon_request, fence_worker, release_worker>;

class worker_queue {
public:
  using instant = std::chrono::steady_clock::time_point;

  explicit worker_queue(worker_limits limits)
      : limits_(std::move(limits)), line_(limits_.policies()) {}

  struct asked {
    std::uint64_t request = 0; // unique
    std::size_t bytes = 0;     // of it in a message
    std::optional<instant> deadline{};
    std::uint64_t priority = 0;                 // 0: the default level's
    std::chrono::microseconds queue_timeout{0}; // shorter than its level's; 0: it says none
    bool goes_alone = false;                    // in a batch of its own
  };
  // Errors: invalid_value (a priority or a timeout that its model does not have), overloaded,
  // no_job_ticket; then it has not come in.
  result<void> enter(const asked& a, instant now);
  // Its client has gone. Nothing if it has ended.
  void cancel(std::uint64_t request, instant now);

  // A new life of a node ends the one before; the same life again has lost what it had.
  void worker_up(worker_life worker, instant now);
  void worker_gone(worker_life worker, const std::string& how, instant now);
  void worker_leaves(worker_life worker);
  // Its transport is silent: gone, unless it is at work, which may keep it from saying anything.
  // True if it was taken for gone.
  bool worker_silent(worker_life worker, instant now);

  // A piece has come. True: to be delivered. What is not asked for any more, or of a life that is
  // over, is not.
  bool take_piece(worker_life worker, std::uint64_t request, std::uint32_t index, bool is_last,
                  instant now);

  // Deadlines, and batches whose first request has waited long enough.
  void tick(instant now);
  // When a batch will start although it is not full, or a request has waited too long; else time is
  // told now and then.
  std::optional<instant> due() const;
  std::vector<worker_order> take_orders() { return std::exchange(orders_, {}); }

  std::size_t waiting() const noexcept { return line_.size(); }
  std::size_t running() const noexcept { return entries_.size() - line_.size(); }
  std::size_t workers() const noexcept; // that take requests
  std::vector<worker_life> lives() const;
  // What must hold after every call (ENSURE).
  void check_integrity() const;

private:
  struct entry {
    std::size_t bytes = 0;
    instant arrived;
    std::optional<instant> deadline;
    std::uint32_t losses = 0;     // workers that ended while they had it
    std::uint32_t next_index = 0; // of its pieces
    std::optional<worker_life> worker;
    bool goes_alone = false;
    bool is_abandoned = false;
  };
  struct worker {
    epoch_id epoch;
    std::vector<std::uint64_t> open; // in the order of the batch
    instant heard;                   // of its batch
    std::uint64_t idle_turn = 0;     // who has been idle for longest comes first
    bool is_leaving = false;
    bool is_fenced = false;

    bool takes_batches() const noexcept { return open.empty() && !is_leaving && !is_fenced; }
  };

  worker* find(worker_life life);
  const std::pair<const node_id, worker>* longest_idle() const;
  // The front, as far as it fits together.
  struct candidates {
    std::size_t count = 0;
    bool is_full = false; // no other can join them
    instant oldest{};     // when the first of them came
  };
  candidates next_batch() const;
  // Of `c`, how many go now.
  std::size_t ready(const candidates& c, instant now) const;
  void form_batches(instant now);
  void expire(instant now);
  void begin(node_id node, worker& at, std::size_t count, instant now);
  void end(std::uint64_t request, error why);
  void lose(std::uint64_t request, const std::string& how);
  void fence(node_id node, worker& w, std::string why);
  void finish_item(node_id node, worker& w, std::uint64_t request);
  void release_if_done(node_id node, const worker& w);
  void end_late(instant now);
  void end_unserved(instant now);
  void watch_workers(instant now);

  worker_limits limits_;
  std::unordered_map<std::uint64_t, entry> entries_;
  waiting_line line_;
  std::map<node_id, worker> workers_;
  std::optional<instant> absent_since_; // none: some worker takes requests, or nobody has looked
  std::uint64_t batches_ = 0;
  std::uint64_t turns_ = 0;
  std::vector<worker_order> orders_;
};

} // namespace baton::schedule
