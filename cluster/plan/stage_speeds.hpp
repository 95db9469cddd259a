// How fast the stages of a plan are, relative to one another: by their threads and by how fast
// their machines read memory, which is what decoding is bound by. Pure.
#pragma once

#include "cluster/plan/plan.hpp"

#include <vector>

namespace baton::cluster {

// Machines whose measured speeds are within this factor of one another are alike: the difference is
// noise, and layers must not be cut by that.
inline constexpr double alike_speeds = 1.25;

// By stage; all machines plan the same, so there are only sums, products and comparisons in it.
// Stages of one machine share what it reads in all. Where a machine's speed is not known, threads
// alone count.
std::vector<double> stage_speeds(const cluster_plan& plan, const machines& known);

} // namespace baton::cluster
