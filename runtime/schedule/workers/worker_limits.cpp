#include "runtime/schedule/workers/worker_limits.hpp"

#include <algorithm>
#include <iterator>

namespace baton::schedule {

std::vector<queue_policy> worker_limits::policies() const {
  std::vector<queue_policy> all(std::max(1u, priority_levels), default_queue_policy);
  for (const auto& [level, policy] : priority_queue_policy)
    all.at(level - 1) = policy;
  return all;
}

std::size_t ready(const batch_candidates& c, const worker_limits& limits,
                  std::chrono::steady_clock::time_point now) {
  const auto delay = limits.max_batch_delay;
  if (delay.count() > 0 && now >= c.oldest + delay)
    return c.count;
  const auto& preferred = limits.preferred_batch_sizes;
  const auto above = std::upper_bound(preferred.begin(), preferred.end(), c.count);
  if (above != preferred.begin())
    return *std::prev(above);
  return c.is_full || delay.count() == 0 ? c.count : 0;
}

} // namespace baton::schedule
