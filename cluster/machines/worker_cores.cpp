#include "cluster/machines/worker_cores.hpp"

#include <algorithm>

namespace baton::cluster {

machine_cores cores_here(const cpu_launcher& how, const machine_facts& facts) {
  return {facts.cores, facts.physical_cores(),
          how.numa_node ? cores_of_numa_node(*how.numa_node) : std::vector<std::uint32_t>()};
}

result<worker_cores> cores_of(const cpu_launcher& how, const machine_cores& machine,
                              const worker_processes& who) {
  worker_cores out;
  const auto own = std::max(1u, who.own);
  if (!how.is_enabled) {
    const auto cores = static_cast<std::uint32_t>(machine.physical.size());
    out.threads = std::max(1u, cores / std::max(own, who.all));
    return out;
  }
  const auto cores = launcher_cores(how, machine);
  if (!cores)
    return cores.error();
  out.bound = cores_of_worker(how, *cores, who.before, own, who.all);
  out.threads = std::max(1u, static_cast<std::uint32_t>(out.bound.size()) / own);
  return out;
}

} // namespace baton::cluster
