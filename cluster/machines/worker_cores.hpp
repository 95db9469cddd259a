// The cores that a worker is bound to, and the number of threads of its libraries. Pure, except
// cores_here.
#pragma once

#include "cluster/config/config.hpp"
#include "cluster/machines/machine.hpp"

namespace baton::cluster {

// The facts of this machine that `how` needs.
machine_cores cores_here(const cpu_launcher& how, const machine_facts& facts);

// Processes of workers on this machine, by slot; every rank of a group counts.
struct worker_processes {
  std::uint32_t before = 0, own = 1, all = 1;
};

struct worker_cores {
  std::vector<std::uint32_t> bound; // empty: all cores are allowed
  std::uint32_t threads = 1;        // OMP_NUM_THREADS per process, unless configured
};
// Errors: bad_config (a core or a NUMA node does not exist).
result<worker_cores> cores_of(const cpu_launcher& how, const machine_cores& machine,
                              const worker_processes& who);

} // namespace baton::cluster
