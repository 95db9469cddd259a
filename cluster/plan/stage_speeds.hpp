// Relative speeds of a plan's stages, by their threads and their machines' memory bandwidth, which
// limits decoding. Pure.
#pragma once

#include "cluster/plan/plan.hpp"

#include <vector>

namespace baton::cluster {

// Speeds of machines within this factor count as alike: the difference is noise and must not move
// layers.
inline constexpr double alike_speeds = 1.25;

// By stage. Uses only sums, products and comparisons, so all machines compute the same plan. Stages
// of one machine share its total bandwidth. If a machine's speed is not known, only threads count.
std::vector<double> stage_speeds(const cluster_plan& plan, const machines& known);

} // namespace baton::cluster
