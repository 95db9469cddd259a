// The facts about a machine that a plan needs, collected on that machine.
#pragma once

#include "cluster/machines/cgroup_limits.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace baton::cluster {

// Memory read bandwidth in GB/s. 0: not measured.
struct read_speed {
  double one_thread = 0;
  double all_cores = 0; // together
  bool is_known() const noexcept { return one_thread > 0 && all_cores > 0; }
};

// The link between a machine and the root's, measured over one encrypted connection.
struct link_speed {
  double round_trip_seconds = 0; // of a short request and its answer
  double bytes_per_second = 0;   // to the machine
  bool is_known() const noexcept { return bytes_per_second > 0; }
};

struct machine_facts {
  std::vector<std::uint32_t> cores; // hardware threads of this process, in Linux's numbering
  std::uint64_t memory_available_bytes = 0; // before any process of the cluster runs; of its cgroup
  // Hardware threads in `cores` that share a physical core with an earlier one. A compute thread
  // there would only compete with the other one's.
  std::vector<std::uint32_t> siblings = {};
  std::vector<std::uint32_t> physical_cores() const; // one hardware thread per core
  read_speed reads = {};
  link_speed link = {}; // of another machine
};
machine_facts facts_of_this_machine();
// Leaves only what the limits allow: memory, and as many of the first cores.
void obey(const cgroup_limits& limits, machine_facts& facts);
// Includes the read speed, which takes a third of a second and 256 MiB; without it if they are not
// available.
machine_facts measured_facts_of_this_machine();

// The name of the root's machine; other machines have their node's name.
inline constexpr const char* root_machine = "";
using machines = std::map<std::string, machine_facts>;

// The form in messages to the root and in its records. Nothing if the JSON has another form.
nlohmann::json json_of(const machine_facts& facts);
std::optional<machine_facts> machine_from(const nlohmann::json& json);

} // namespace baton::cluster
