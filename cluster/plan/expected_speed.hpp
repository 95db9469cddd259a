// Predicts the speed of a plan from measured steps of its stages, combined as the scheduler runs
// them. `cluster plan` shows it before anything is started.
#pragma once

#include "cluster/plan/plan.hpp"

#include <span>
#include <vector>

namespace baton::cluster {

// The micro-batches in flight when so many streams decode, one per stage at most, and their rows.
struct batches_under_way {
  std::uint32_t count = 1;
  std::uint32_t rows = 1;
};
batches_under_way batches_of(std::uint32_t streams, std::uint32_t stages);

// Seconds per micro-batch of `rows` that serving takes from each stage of one machine; 0 if gateway
// and head have a core of their own. Pure.
double serving_seconds(std::uint32_t rows, std::uint32_t stages, std::uint32_t threads,
                       std::uint32_t cores) noexcept;

// `stage_seconds`: per stage, for a micro-batch. `way_between`: delay of the links between machines
// per step. Pure.
double tokens_per_second(std::span<const double> stage_seconds, std::uint32_t streams,
                         double way_between = 0);

// Measures here with the model's weights and the threads of the plan's stages, which takes a second
// or two. Stages on other machines are scaled by speed (stage_speeds.hpp); a machine without a
// measurement counts as equal to this one. Empty if the plan has no shard. Errors: as step_probe.
result<std::vector<expected_speed>> expect(const cluster_config& config,
                                           const model::description& model,
                                           const cluster_plan& plan, const machines& known);

} // namespace baton::cluster
