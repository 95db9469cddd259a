// Which cores a worker is bound to, and how many threads its libraries are told to use. Pure, but
// for cores_here.
#pragma once

#include "cluster/config/config.hpp"
#include "cluster/plan/machine.hpp"

namespace baton::cluster {

// Of this machine, as `how` needs to know them.
machine_cores cores_here(const cpu_launcher& how, const machine_facts& facts);

// Processes of workers on this machine, by their seats; a rank of a group is one.
struct worker_processes {
  std::uint32_t before = 0, own = 1, all = 1;
};

struct worker_cores {
  std::vector<std::uint32_t> bound; // none: it may use all cores
  std::uint32_t threads = 1;        // OMP_NUM_THREADS of each of its processes, unless one says it
};
// Errors: bad_config (a core or a NUMA node is not there).
result<worker_cores> cores_of(const cpu_launcher& how, const machine_cores& machine,
                              const worker_processes& who);

} // namespace baton::cluster
