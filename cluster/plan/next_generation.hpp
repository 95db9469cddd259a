// Determines the first and the next generation of a pipeline's shards: its nodes, its number of
// stages and their width. plan.hpp checks whether it fits. Pure.
#pragma once

#include "cluster/config/config.hpp"
#include "cluster/membership/generation_registry.hpp"
#include "schema/generation.hpp"
#include "schema/result.hpp"

#include <set>
#include <string>

namespace baton::cluster {

// Whether this pipeline has shards on a node, given that it has devices there.
bool has_shards_on(const generation& which, const std::string& node);
// The devices of this view's pipeline: on a node, and on all nodes of a generation.
std::size_t own_devices(const cluster_config& config, const node_config& n);
std::size_t own_devices(const cluster_config& config, const generation& which);

// The number of a pipeline's first generation; unique among pipelines.
inline std::uint32_t first_number(const cluster_config& config) {
  return config.pipeline;
}
// The generation that `cluster up` starts. It has no stages if all nodes of the pipeline wait.
generation first_generation(const cluster_config& config);

// Each function below sets one stage for every `width` devices; the caller sets the number.

// The successor of `now` without the node, or with it again, which switches the pipeline on. No
// stages if no device is left, or if it is drained while switched off. Errors: not_found (no such
// node), conflict (nothing would change).
result<generation> next_generation(const cluster_config& config, const generation& now,
                                   const std::string& node, bool is_drain);
// The successor of `now` without these nodes; unknown and already excluded ones are allowed.
// Errors: does_not_fit (no device is left).
result<generation> next_generation_without(const cluster_config& config, const generation& now,
                                           const std::set<std::string>& nodes);
// The successor of `now`, switched on or off, with stages of `width` ranks; may equal `now`.
// Errors: does_not_fit (there is no device to switch on).
result<generation> next_generation_scaled(const cluster_config& config, const generation& now,
                                          bool is_on, std::uint32_t width);

} // namespace baton::cluster
