// How the worker models of this gateway stand, for doors that tell of them. No actor here: the
// pools write (worker_pool.hpp).
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
  double seconds = 0; // together, from their workers' side
};

// What is told of seldom, and kept by size or name. Any thread.
class worker_tally {
public:
  void batch_ended(std::uint32_t size, double seconds);
  void loaded(const std::string& process, double seconds); // its handler was ready after so long
  std::map<std::uint32_t, batch_tally> batches() const;
  std::map<std::string, double> load_seconds() const;

private:
  mutable std::mutex mutex_;
  std::map<std::uint32_t, batch_tally> batches_; // as many as a batch may have requests
  std::map<std::string, double> load_seconds_;   // by process
};

struct worker_load {
  std::atomic<std::size_t> workers{0}; // that take requests
  std::atomic<std::size_t> waiting{0};
  std::atomic<std::size_t> running{0};
  worker_tally tally;
  // Written by whoever made the pool: whether the model has any worker, here or elsewhere. One of a
  // model store may be scaled to none.
  std::atomic<bool> has_workers{true};
};

struct worker_view {
  std::string name;
  std::string version;
  std::shared_ptr<const worker_load> load;
  std::shared_ptr<const worker_facts> facts = std::make_shared<worker_facts>();
  std::string archive{};   // of a model store; empty: its model is no client's to change
  bool is_default = false; // of several versions, where one was chosen
};

// Gauges in Prometheus' text format 0.0.4; nothing if there are no worker models.
std::string worker_metrics(const std::vector<worker_view>& all);

} // namespace baton::gateway
