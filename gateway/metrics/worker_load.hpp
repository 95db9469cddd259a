// The load of this gateway's worker models, for servers that report it. No actor code: the pools
// write it (worker_pool.hpp).
#pragma once

#include "gateway/state/worker_facts.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace baton::gateway {

// Written by the model's pool, read by any thread.
struct batch_tally {
  std::uint64_t count = 0;
  double seconds = 0; // total, from dispatch to the last answer
};

// Values that change rarely, by batch size or process. Any thread.
class worker_tally {
public:
  void batch_ended(std::uint32_t size, double seconds);
  void loaded(const std::string& process, double seconds); // until its handler was ready
  std::map<std::uint32_t, batch_tally> batches() const;
  std::map<std::string, double> load_seconds() const;

private:
  mutable std::mutex mutex_;
  std::map<std::uint32_t, batch_tally> batches_; // one entry for each batch size
  std::map<std::string, double> load_seconds_;   // by process
};

struct worker_load {
  std::atomic<std::size_t> workers{0}; // that accept requests
  std::atomic<std::size_t> waiting{0};
  std::atomic<std::size_t> running{0};
  worker_tally tally;
  // Whether the model has any worker, here or elsewhere. A model of a store may be scaled to none.
  // Written by the owner of the pool.
  std::atomic<bool> has_workers{true};
};

struct worker_view {
  std::string name;
  std::string version;
  std::shared_ptr<const worker_load> load;
  std::shared_ptr<const worker_facts> facts = std::make_shared<worker_facts>();
  std::string archive{};   // of a model store; empty: clients cannot change the model
  bool is_default = false; // the chosen one of several versions
};

// Gauges in Prometheus' text format 0.0.4; empty if there are no worker models.
std::string worker_metrics(const std::vector<worker_view>& all);

} // namespace baton::gateway
