// The limits of the control group (cgroup v2) that a process runs in, such as those of a container.
// Kernel documentation: Control Group v2, "CPU Interface Files" and "Memory Interface Files".
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace baton::cluster {

struct cgroup_limits {
  // The rest below memory.max, with page cache that can be dropped; none: no limit.
  std::optional<std::uint64_t> memory_available_bytes;
  std::optional<double> cpus; // processor time per time (cpu.max); none: no limit
};

// `membership`: the text of /proc/PID/cgroup. `mount`: where cgroup v2 is mounted. The tightest
// limit of the group and of those above it. A file that cannot be read is no limit.
cgroup_limits limits_of_cgroup(std::string_view membership, const std::filesystem::path& mount);
cgroup_limits limits_of_this_cgroup();

} // namespace baton::cluster
