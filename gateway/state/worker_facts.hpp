// What a worker model is, as its [[workers]] table says: for doors that tell of it, and that check
// what it is asked before a worker has to.
#pragma once

#include "runtime/schedule/waiting_line.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace baton::gateway {

// A tensor that the model takes or gives, in KServe's words.
struct worker_tensor {
  std::string name;
  std::string datatype;            // "FP32", "BYTES" (tensor_data.hpp)
  std::vector<std::int64_t> shape; // -1: any size; without the dimension of max_batch_size
  bool is_optional = false;        // of inputs

  friend bool operator==(const worker_tensor&, const worker_tensor&) = default;
};

// Which of a model's versions are served, in Triton's words: so many of the newest, unless all, or
// those that are named.
struct version_policy {
  std::uint32_t latest = 1;
  bool is_all = false;
  std::vector<std::uint32_t> specific{};

  friend bool operator==(const version_policy&, const version_policy&) = default;
};

struct worker_facts {
  std::string platform = "baton_worker";
  std::vector<worker_tensor> inputs, outputs; // none: not declared, whatever comes passes
  // Above 0: tensors have one more dimension in front, of 1 to so many. As Triton's.
  std::uint32_t max_batch_size = 0;
  bool is_decoupled = false;          // any number of responses to a request
  std::vector<std::string> processes; // of the whole cluster: "worker-upper-0"
  std::uint32_t batch_size = 1;       // requests that are answered together
  std::chrono::microseconds max_batch_delay{100'000};
  std::size_t max_queued = 100; // at each gateway
  std::chrono::milliseconds response_timeout{120'000};
  std::chrono::milliseconds startup_timeout{120'000};
  bool use_job_ticket = false;
  std::vector<std::uint32_t> preferred_batch_size{}; // ascending
  bool preserve_ordering = false;
  std::uint32_t priority_levels = 0, default_priority_level = 0;
  schedule::queue_policy queue_policy{};
  std::map<std::uint32_t, schedule::queue_policy> priority_queue_policy{}; // of levels
  version_policy versions{};
  std::string config{}; // of Triton, as JSON (kserve_config.hpp); empty: it has none
};

} // namespace baton::gateway
