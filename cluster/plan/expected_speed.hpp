// How fast a plan will serve: what steps of its stages take, put together as the scheduler runs
// them. `cluster plan` says it before anything is started.
#pragma once

#include "cluster/plan/plan.hpp"

#include <span>
#include <vector>

namespace baton::cluster {

// How many rows a micro-batch has when so many streams decode, and how many are on their way: one
// for each stage, as far as there are streams.
struct batches_under_way {
  std::uint32_t count = 1;
  std::uint32_t rows = 1;
};
batches_under_way batches_of(std::uint32_t streams, std::uint32_t stages);

// What serving tokens takes from each of the stages of one machine, in seconds of a micro-batch of
// so many rows: nothing where a core is left for the gateway and the head. Pure.
double serving_seconds(std::uint32_t rows, std::uint32_t stages, std::uint32_t threads,
                       std::uint32_t cores) noexcept;

// `stage_seconds`: of a micro-batch of those rows, by stage. `way_between`: what links add from
// machine to machine until it begins again. Pure.
double tokens_per_second(std::span<const double> stage_seconds, std::uint32_t streams,
                         double way_between = 0);

// Measured here, with the model's weights and the threads of the plan's stages, which takes a
// second or two; a stage of another machine takes as much longer as that is slower
// (stage_speeds.hpp; a machine that has not said how fast it is counts as this one). Empty: the
// plan has no shard. Errors: as step_probe.
result<std::vector<expected_speed>> expect(const cluster_config& config,
                                           const model::description& model,
                                           const cluster_plan& plan, const machines& known);

} // namespace baton::cluster
