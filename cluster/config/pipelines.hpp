// The pipelines of a cluster: one per replica of each model, in order, each with a head and shards
// of its own. Every device belongs to one pipeline, no matter which nodes have layers now. Models
// that are loaded on demand share the devices that the others leave. Pure.
#pragma once

#include "cluster/config/config.hpp"

#include <cstdint>
#include <limits>
#include <map>
#include <string_view>
#include <vector>

namespace baton::cluster {

// The owner of a device that models share.
inline constexpr std::uint32_t shared_device = std::numeric_limits<std::uint32_t>::max() - 1;

// Shards of a replica: its initial number of devices.
inline std::size_t devices_of_replica(const model_config& m) {
  return std::size_t{m.pipeline_parallel_size} * m.tensor_parallel_size;
}

// The model of each pipeline, by the pipeline's number.
std::vector<std::uint32_t> models_of_pipelines(const cluster_config& config);

// All of this machine, for a configuration without [[nodes]].
node_config default_node(const cluster_config& config);

// Assigns every device to a replica, in order; models that name their nodes come first. A replica
// that lacks devices takes those of waiting nodes and waits as well. Remaining waiting nodes go to
// the pipelines with the fewest of them. Errors: bad_config (unknown node, too few or too many
// devices).
result<void> assign_devices(cluster_config& config);

// Leaves out models that were found in directories and cannot be served (by their position, with
// the reasons), and assigns the devices anew. Errors: bad_config (no model is left), those of
// assign_devices.
result<void> pass_over(cluster_config& config, const std::map<std::uint32_t, error>& unusable);

// The pipelines whose models are loaded on demand, and how many of them are loaded at a time, at
// most.
std::vector<std::uint32_t> on_demand_pipelines(const cluster_config& config);
std::size_t loaded_at_once(const cluster_config& config);

// The configuration for one pipeline: `model` is the one that it serves, and the shared devices
// that it uses are its own.
cluster_config config_for(const cluster_config& config, std::uint32_t pipeline);

// Whether a pipeline has a device on this node.
bool has_devices_on(const cluster_config& config, std::uint32_t pipeline, std::string_view node);

} // namespace baton::cluster
