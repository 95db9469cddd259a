// Whether a silent process hangs or waits for a processor, as the kernel reports it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>

namespace baton::cluster {

// CPU use of all threads of a process.
struct process_use {
  std::uint64_t cpu_ticks = 0; // user and system time
  bool is_runnable = false;    // at least one thread is runnable
};
// Nothing if there is no such process. `but`: a thread to leave out, for a process that checks
// itself. proc(5).
std::optional<process_use> use_of(std::int32_t pid, std::int32_t but = 0);

// It is runnable but hardly runs. It is not stopped or blocked (it would not be runnable) and not
// in a loop (it would get its share).
bool is_starved(const process_use& before, const process_use& now, std::chrono::milliseconds span);

// Compares each process with its state at the previous call.
class starvation_watch {
public:
  using clock = std::chrono::steady_clock;
  // False at the first call for a process.
  bool look(std::int32_t pid, clock::time_point now, std::int32_t but_thread = 0);

private:
  struct seen {
    process_use use;
    clock::time_point at;
  };
  std::map<std::int32_t, seen> seen_;
};

} // namespace baton::cluster
