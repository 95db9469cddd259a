// Properties of a worker model, as its [[workers]] table defines them. Servers publish them, and
// check requests against them before a worker does.
#pragma once

#include "runtime/schedule/workers/request_queue.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace baton::gateway {

// An input or output tensor of the model, in KServe's terms.
struct worker_tensor {
  std::string name;
  std::string datatype;            // "FP32", "BYTES" (tensor_data.hpp)
  std::vector<std::int64_t> shape; // -1: any size; without the dimension of max_batch_size
  bool is_optional = false;        // inputs only

  friend bool operator==(const worker_tensor&, const worker_tensor&) = default;
};

// The served versions of a model, in Triton's terms: the `latest` newest ones, all, or `specific`.
struct version_policy {
  std::uint32_t latest = 1;
  bool is_all = false;
  std::vector<std::uint32_t> specific{};

  friend bool operator==(const version_policy&, const version_policy&) = default;
};

struct worker_facts {
  std::string platform = "baton_worker";
  std::vector<worker_tensor> inputs, outputs; // empty: not declared, anything passes
  // Above 0: tensors have a leading batch dimension of 1 to this size. As Triton's.
  std::uint32_t max_batch_size = 0;
  bool is_decoupled = false;          // any number of responses to a request
  std::vector<std::string> processes; // of the whole cluster: "worker-upper-0"
  std::uint32_t batch_size = 1;       // requests per batch
  std::chrono::microseconds max_batch_delay{100'000};
  std::size_t max_queued = 100; // per gateway
  std::chrono::milliseconds response_timeout{120'000};
  std::chrono::milliseconds startup_timeout{120'000};
  bool use_job_ticket = false;
  std::vector<std::uint32_t> preferred_batch_size{}; // ascending
  bool preserve_ordering = false;
  std::uint32_t priority_levels = 0, default_priority_level = 0;
  schedule::queue_policy queue_policy{};
  std::map<std::uint32_t, schedule::queue_policy> priority_queue_policy{}; // by level
  version_policy versions{};
  std::string config{}; // Triton's configuration as JSON (kserve_config.hpp); empty: none
};

} // namespace baton::gateway
