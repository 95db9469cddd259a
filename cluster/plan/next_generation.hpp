// Which generation of shards a pipeline begins with, and which one follows: the nodes that it is
// spread over, how many stages that makes, and how wide. Whether it fits is for plan.hpp to say.
// Pure.
#pragma once

#include "cluster/config/config.hpp"
#include "cluster/plan/generation_book.hpp"
#include "schema/generation.hpp"
#include "schema/result.hpp"

#include <set>
#include <string>

namespace baton::cluster {

// Of this pipeline, if it has devices there.
bool has_shards_on(const generation& which, const std::string& node);
// That the pipeline of this view has: on a node, and in all on those that a generation is not
// without.
std::size_t own_devices(const cluster_config& config, const node_config& n);
std::size_t own_devices(const cluster_config& config, const generation& which);

// The number of what `cluster up` begins with: no two pipelines have one in common.
inline std::uint32_t first_number(const cluster_config& config) {
  return config.pipeline;
}
// What `cluster up` begins with: no stage, if all nodes of the pipeline wait.
generation first_generation(const cluster_config& config);

// Of the following, each has one stage for every `width` of the devices that it has, and its number
// is for the caller to give.

// The one after `now`, without the node or with it again, which switches the pipeline on. It has no
// stage if no device is left, or if it is drained while the pipeline is switched off. Errors:
// not_found (no such node), conflict (it is so already).
result<generation> next_generation(const cluster_config& config, const generation& now,
                                   const std::string& node, bool is_drain);
// The one after `now` without these, those that it is without already, or that there are not, among
// them. Errors: does_not_fit (no device is left).
result<generation> next_generation_without(const cluster_config& config, const generation& now,
                                           const std::set<std::string>& nodes);
// The one after `now`, switched on or off, with stages of `width` ranks: `now` again, if it is so
// already. Errors: does_not_fit (there is no device to switch on).
result<generation> next_generation_scaled(const cluster_config& config, const generation& now,
                                          bool is_on, std::uint32_t width);

} // namespace baton::cluster
