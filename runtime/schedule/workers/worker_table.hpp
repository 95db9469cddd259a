// The workers of one model, and the requests that each of them has open. Pure.
//
// A worker (one incarnation):
//   idle --start_batch--> busy --last piece of all--> idle
//   idle, busy --leaves--> leaving --nothing open--> released (no further batch)
//   busy --no piece for response_timeout, pieces out of order--> fenced (no further batch; its
//          supervisor is asked to end it) --gone, new incarnation--> removed
#pragma once

#include "schema/ids.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace baton::schedule {

// One incarnation of a worker process.
struct worker_incarnation {
  process_id process;
  incarnation_id incarnation;
  friend constexpr auto operator<=>(const worker_incarnation&, const worker_incarnation&) = default;
};

class worker_table {
public:
  using instant = std::chrono::steady_clock::time_point;

  struct worker {
    incarnation_id incarnation;
    std::vector<std::uint64_t> open; // in batch order
    instant last_piece_at;           // last piece of its batch
    std::uint64_t idle_since = 0;    // the longest idle worker comes first
    bool is_leaving = false;
    bool is_fenced = false;

    bool takes_batches() const noexcept { return open.empty() && !is_leaving && !is_fenced; }
  };

  // Null: there is no such incarnation.
  worker* find(worker_incarnation which);
  // The incarnation of a process.
  std::optional<incarnation_id> incarnation_of(process_id process) const;
  // A new worker, idle. Requires: the process has none.
  void add(worker_incarnation which);
  // Removes it. Returns its open requests, in batch order. Requires: it exists.
  std::vector<std::uint64_t> remove(process_id process);
  // The request has ended at the worker, which may be idle now.
  void close(worker& at, std::uint64_t request);
  // It gets no further batch. Returns its open requests.
  std::vector<std::uint64_t> fence(worker& at);

  std::size_t taking() const noexcept; // that take requests
  std::size_t idle() const noexcept;
  // The one that waits longest for a batch; none: all are busy, leaving or fenced.
  std::optional<process_id> longest_idle() const;
  std::vector<worker_incarnation> incarnations() const; // without the fenced ones

  std::map<process_id, worker>& all() noexcept { return workers_; }
  const std::map<process_id, worker>& all() const noexcept { return workers_; }

private:
  std::map<process_id, worker> workers_;
  std::uint64_t idle_count_ = 0;
};

} // namespace baton::schedule
