// The open requests of a worker model and the batches they are in, with their metrics. Not
// thread-safe: the pool owns it.
#pragma once

#include "gateway/workers/worker_pool.hpp"

#include <chrono>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace baton::gateway {

class open_infers {
public:
  using instant = schedule::worker_queue::instant;
  struct entry {
    std::shared_ptr<stream> out;
    infer request; // kept until it ends: its worker may be lost
    std::shared_ptr<quota_lease> lease;
    trace_handle trace;
    instant arrived;
    std::uint64_t batch = 0; // the batch it is in
  };

  // `config` outlives this.
  explicit open_infers(const worker_pool_config& config) : config_(config) {}

  bool is_empty() const noexcept { return open_.empty(); }
  std::vector<std::uint64_t> numbers() const;
  entry* find(std::uint64_t request); // null: it has ended

  void enter(open_infer& m, instant now);
  // -> the batch as the worker gets it. Requires: all are open.
  infer_batch begin_batch(std::uint64_t batch, const std::vector<std::uint64_t>& requests,
                          instant now);
  // Counts the end in the metrics; the entry stays.
  void count_end(const entry& of, bool is_well, bool is_cancelled, instant now);
  void erase(std::uint64_t request, instant now);

private:
  struct open_batch {
    std::uint32_t size = 0, left = 0;
    instant begun;
    bool is_well = false; // at least one of its requests has ended so
  };

  void leave_batch(const entry& of, instant now);

  const worker_pool_config& config_;
  std::unordered_map<std::uint64_t, entry> open_;
  std::unordered_map<std::uint64_t, open_batch> batches_; // whose requests are open
};

} // namespace baton::gateway
