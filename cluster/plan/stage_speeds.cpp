#include "cluster/plan/stage_speeds.hpp"

#include <algorithm>
#include <map>

namespace baton::cluster {
namespace {

using by_machine = std::map<std::string, double>;

by_machine threads_of(const cluster_plan& plan) {
  by_machine threads;
  for (const auto& s : plan.shards)
    threads[s.machine] += s.threads;
  return threads;
}

// GB/s per thread of the plan on each machine, under full load. Empty if one is not known.
by_machine thread_speeds(const by_machine& threads, const machines& known) {
  by_machine speeds;
  for (const auto& [machine, count] : threads) {
    const auto facts = known.find(machine);
    if (facts == known.end() || !facts->second.reads.is_known())
      return {};
    const auto& reads = facts->second.reads;
    speeds[machine] = std::min(reads.one_thread, reads.all_cores / count);
  }
  return speeds;
}

// Raises each speed to the fastest one that counts as alike.
void level(by_machine& speeds) {
  std::vector<double*> falling;
  for (auto& [machine, speed] : speeds)
    falling.push_back(&speed);
  std::sort(falling.begin(), falling.end(),
            [](const double* a, const double* b) { return *a > *b; });
  double lead = 0;
  for (auto* speed : falling)
    *speed = lead = *speed * alike_speeds < lead || lead == 0 ? *speed : lead;
}

} // namespace

std::vector<double> stage_speeds(const cluster_plan& plan, const machines& known) {
  // Devices of other engines are not measured and count as equal.
  if (std::any_of(plan.shards.begin(), plan.shards.end(),
                  [](const shard_plan& s) { return !s.on_device.is_native(); }))
    return std::vector<double>(plan.stages, 1.0);
  auto speeds = thread_speeds(threads_of(plan), known);
  level(speeds);
  std::vector<double> stages(plan.stages);
  for (const auto& s : plan.shards)
    stages[s.stage] += s.threads * (speeds.empty() ? 1.0 : speeds.at(s.machine));
  return stages;
}

} // namespace baton::cluster
