// What a plan must know of a machine, asked on the machine itself.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace baton::cluster {

// How fast memory is read there, in GB/s. 0: not measured.
struct read_speed {
  double one_thread = 0;
  double all_cores = 0; // together
  bool is_known() const noexcept { return one_thread > 0 && all_cores > 0; }
};

// Between a machine and the root's, as one conversation gets it, encrypted.
struct link_speed {
  double round_trip_seconds = 0; // of a short question and its answer
  double bytes_per_second = 0;   // to the machine
  bool is_known() const noexcept { return bytes_per_second > 0; }
};

struct machine_facts {
  std::vector<std::uint32_t> cores; // that this process may use: hardware threads, as Linux counts
  std::uint64_t memory_available_bytes = 0; // before anything of the cluster runs
  // Of these, hardware threads that share a physical core with an earlier one: a compute thread
  // there would only take turns with that one's.
  std::vector<std::uint32_t> siblings = {};
  std::vector<std::uint32_t> physical_cores() const; // one hardware thread of each
  read_speed reads = {};
  link_speed link = {}; // of a machine elsewhere
};
machine_facts facts_of_this_machine();
// With its read speed, which takes a third of a second and 256 MiB; where these are not to be had,
// without.
machine_facts measured_facts_of_this_machine();

// The machine of the root, and by their node's name those elsewhere.
inline constexpr const char* root_machine = "";
using machines = std::map<std::string, machine_facts>;

// As they are told to the root and noted by it. Nothing if it is not such a document.
nlohmann::json json_of(const machine_facts& facts);
std::optional<machine_facts> machine_from(const nlohmann::json& json);

} // namespace baton::cluster
