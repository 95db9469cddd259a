// How busy this machine is, as the system tells it: processors, memory, the disk of "/". What
// TorchServe's metrics tell of its host (ts/metrics/system_metrics.py, by psutil). Linux.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace baton::gateway {

struct host_load {
  double cpu_percent = 0; // of all processors, since the reading before; 0 at the first
  double memory_used_mib = 0;
  double memory_available_mib = 0;
  double memory_percent = 0;
  double disk_used_gib = 0;
  double disk_available_gib = 0;
  double disk_percent = 0; // of what users may have
};

struct cpu_ticks {
  std::uint64_t busy = 0;
  std::uint64_t all = 0;
};
// The first line of /proc/stat. Nothing if it is none.
std::optional<cpu_ticks> parse_cpu_ticks(std::string_view stat);
// A line of /proc/meminfo: kB. Nothing if there is none such.
std::optional<std::uint64_t> parse_memory_kib(std::string_view meminfo, std::string_view name);

std::string host_name(); // as the system has it; "unknown" if it does not say

class host_reader {
public:
  // What cannot be read stays 0.
  host_load read();

private:
  cpu_ticks before_;
};

} // namespace baton::gateway
