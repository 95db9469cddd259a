// The load of this machine: processors, memory, the disk of "/". These are the host metrics of
// TorchServe (ts/metrics/system_metrics.py, by psutil). Linux.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace baton::gateway {

struct host_load {
  double cpu_percent = 0; // of all processors, since the last reading; 0 at first
  double memory_used_mib = 0;
  double memory_available_mib = 0;
  double memory_percent = 0;
  double disk_used_gib = 0;
  double disk_available_gib = 0;
  double disk_percent = 0; // of the space for users
};

struct cpu_ticks {
  std::uint64_t busy = 0;
  std::uint64_t all = 0;
};
// Parses the first line of /proc/stat. Empty: malformed.
std::optional<cpu_ticks> parse_cpu_ticks(std::string_view stat);
// Parses a line of /proc/meminfo, in kB. Empty: there is no such line.
std::optional<std::uint64_t> parse_memory_kib(std::string_view meminfo, std::string_view name);

std::string host_name(); // from the system; "unknown" if it has none

class host_reader {
public:
  // Values that cannot be read stay 0.
  host_load read();

private:
  cpu_ticks before_;
};

} // namespace baton::gateway
