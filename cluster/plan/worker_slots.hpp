// The worker processes of a cluster, their models and their gateways. Pure.
#pragma once

#include "cluster/config/config.hpp"
#include "cluster/plan/plan.hpp"

namespace baton::cluster {

struct worker_slot {
  process_id process;
  std::string name;                // "worker-echo-0"
  const worker_config* of;         // points into the configuration
  std::uint32_t gateway_index = 0; // a model's workers go to the gateways in rotation
};

// In the order of nodes.toml. `config` must outlive them.
inline std::vector<worker_slot> worker_slots(const cluster_config& config) {
  std::vector<worker_slot> slots;
  for (const auto& w : config.workers)
    for (std::uint32_t i = 0; i < w.count; ++i)
      slots.push_back({process_ids::worker(static_cast<std::uint32_t>(slots.size())),
                       fmt::format("worker-{}-{}", w.name, i), &w, i % config.gateway.processes});
  return slots;
}

// Name of the socket in the run directory where workers greet that gateway.
inline std::string worker_endpoint_name(std::uint32_t gateway_index) {
  return fmt::format("workers-{}", gateway_index);
}

} // namespace baton::cluster
