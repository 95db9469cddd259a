// The pipelines of a cluster: one for each replica of each model, in that order, each a head with
// shards of its own. Every device is of one pipeline, whichever nodes have layers at the moment.
// Pure.
#pragma once

#include "cluster/config/config.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace baton::cluster {

// Shards of a replica, as many as it has devices at first.
inline std::size_t devices_of_replica(const model_config& m) {
  return std::size_t{m.pipeline_parallel_size} * m.tensor_parallel_size;
}

// Of each pipeline, by its number: which model it serves.
std::vector<std::uint32_t> models_of_pipelines(const cluster_config& config);

// Says of every device whose it is: replicas take them in their order, those of models that name
// their nodes first. A replica for which there are too few takes those of nodes that wait, and
// waits with them; what then still waits is of the pipelines that have the fewest of such nodes.
// Errors: bad_config (a model names no such node, devices are missing or left over).
result<void> deal_devices(cluster_config& config);

// The configuration as that pipeline sees it: `model` is the one that it serves.
cluster_config view_of(const cluster_config& config, std::uint32_t pipeline);

// Whether one of a pipeline's devices is there.
bool has_devices_on(const cluster_config& config, std::uint32_t pipeline, std::string_view node);

} // namespace baton::cluster
