// The limits of a worker model, and when a batch of its requests starts. Pure.
#pragma once

#include "runtime/schedule/workers/request_queue.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

namespace baton::schedule {

// TorchServe's names and defaults where it has them; otherwise those of Triton's dynamic batcher.
struct worker_limits {
  std::uint32_t batch_size = 1; // requests processed together
  std::chrono::microseconds max_batch_delay{
      100'000};                 // maximum wait of a batch's first request for others
  std::size_t max_queued = 100; // waiting requests; job_queue_size
  std::chrono::milliseconds response_timeout{120'000}; // between pieces
  bool use_job_ticket = false; // accepted only if a worker has room for it now
  // Maximum wait while there is no worker: a restart takes less.
  std::chrono::milliseconds absence_max{30'000};
  // Ascending, at most batch_size: the largest that can be formed starts at once.
  std::vector<std::uint32_t> preferred_batch_sizes{};
  bool preserve_ordering = false;           // answers leave in request order (answer_order.hpp)
  std::uint32_t priority_levels = 0;        // 0: requests have no priority; 1 is the highest
  std::uint32_t default_priority_level = 0; // of requests without a priority; one of the levels
  queue_policy default_queue_policy{};
  std::map<std::uint32_t, queue_policy> priority_queue_policy{}; // by level

  // One policy per level; one if there are no levels.
  std::vector<queue_policy> policies() const;
};

// The head of the queue, as far as it fits into one batch.
struct batch_candidates {
  std::size_t count = 0;
  bool is_full = false;                           // no further request can join
  std::chrono::steady_clock::time_point oldest{}; // arrival of the first one
};

// The number of candidates to start now. Triton's rule: a batch that has waited long enough starts
// as it is; otherwise the largest preferred size; otherwise a batch that cannot grow.
std::size_t ready(const batch_candidates& c, const worker_limits& limits,
                  std::chrono::steady_clock::time_point now);

} // namespace baton::schedule
