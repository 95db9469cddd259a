// Core binding of workers with TorchServe's cpu_launcher_enable and cpu_launcher_args. The options
// are those of torch.backends.xeon.run_cpu, with which TorchServe starts workers. Pure, except
// cores_of_numa_node.
#pragma once

#include "schema/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::cluster {

struct cpu_launcher {
  bool is_enabled = false;
  std::uint32_t cores_per_process = 0;    // 0: the cores are divided evenly
  std::vector<std::uint32_t> core_list;   // empty: all of the machine
  std::optional<std::uint32_t> numa_node; // only cores of this NUMA node
  bool uses_logical_cores = false;        // false: one hardware thread per physical core

  friend bool operator==(const cpu_launcher&, const cpu_launcher&) = default;
};

struct launcher_args {
  cpu_launcher how;               // is_enabled is not set
  std::vector<std::string> taken; // the options in effect
  std::vector<std::string> notes; // one per ignored option: "--rank: the reason"
};
// Errors: bad_config (an option that run_cpu does not know, or an invalid number; names the
// option).
result<launcher_args> parse_launcher_args(std::string_view text);

struct machine_cores {
  std::vector<std::uint32_t> all;      // hardware threads of this process
  std::vector<std::uint32_t> physical; // one per core
  std::vector<std::uint32_t> of_node;  // of how.numa_node, if set
};
// The cores that processes are bound to. Errors: bad_config (none of them exists here, or a core of
// core_list does not).
result<std::vector<std::uint32_t>> launcher_cores(const cpu_launcher& how,
                                                  const machine_cores& machine);
// The cores of a worker with `own` processes; `before` processes precede it, and there are `all` in
// total. Processes share cores if there are too few. Requires: `cores` is not empty.
std::vector<std::uint32_t> cores_of_worker(const cpu_launcher& how,
                                           const std::vector<std::uint32_t>& cores,
                                           std::uint32_t before, std::uint32_t own,
                                           std::uint32_t all);

// Empty if Linux has no such node.
std::vector<std::uint32_t> cores_of_numa_node(std::uint32_t node);

} // namespace baton::cluster
