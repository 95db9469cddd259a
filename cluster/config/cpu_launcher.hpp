// Which cores a worker is bound to, as TorchServe's cpu_launcher_enable and cpu_launcher_args say
// it: the words are those of torch.backends.xeon.run_cpu, which TorchServe starts workers by. Pure,
// but for cores_of_numa_node.
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
  std::uint32_t cores_per_process = 0;    // 0: the cores are shared out evenly
  std::vector<std::uint32_t> core_list;   // empty: the machine's
  std::optional<std::uint32_t> numa_node; // of those the node's
  bool uses_logical_cores = false;        // else one hardware thread of each physical core

  friend bool operator==(const cpu_launcher&, const cpu_launcher&) = default;
};

struct launcher_words {
  cpu_launcher how;               // is_enabled is not touched
  std::vector<std::string> taken; // the words that count
  std::vector<std::string> notes; // of each other one: "--rank: why it means nothing here"
};
// Errors: bad_config (a word that run_cpu does not know, a number that is none; names the word).
result<launcher_words> parse_launcher_words(std::string_view text);

struct machine_cores {
  std::vector<std::uint32_t> all;      // hardware threads that this process may use
  std::vector<std::uint32_t> physical; // one of each core
  std::vector<std::uint32_t> of_node;  // of how.numa_node, if it is said
};
// Those that processes are bound to. Errors: bad_config (there is none of them here, or a core of
// core_list is not there).
result<std::vector<std::uint32_t>> launcher_cores(const cpu_launcher& how,
                                                  const machine_cores& machine);
// Of a worker of `own` processes, which has `before` processes before it, and of `all` in all.
// `cores` are not empty. Where there are fewer cores than processes, they are shared.
std::vector<std::uint32_t> cores_of_worker(const cpu_launcher& how,
                                           const std::vector<std::uint32_t>& cores,
                                           std::uint32_t before, std::uint32_t own,
                                           std::uint32_t all);

// Empty: Linux knows no such node.
std::vector<std::uint32_t> cores_of_numa_node(std::uint32_t node);

} // namespace baton::cluster
