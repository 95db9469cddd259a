// Whether a process that says nothing hangs, or waits for a processor: what the kernel shows of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>

namespace baton::cluster {

// Of all threads of a process.
struct process_use {
  std::uint64_t cpu_ticks = 0; // user and system time
  bool is_runnable = false;    // one of them runs, or would
};
// Nothing if there is no such process. `but`: without this thread, who asks about its own process.
// proc(5).
std::optional<process_use> use_of(std::int32_t pid, std::int32_t but = 0);

// It wants to run and hardly does: neither stopped nor waiting for something else (it would not be
// runnable), nor in a loop (it would get its share).
bool is_starved(const process_use& before, const process_use& now, std::chrono::milliseconds span);

// Remembers how it was when it was last asked.
class starvation_watch {
public:
  using clock = std::chrono::steady_clock;
  // False at the first look at a process.
  bool look(std::int32_t pid, clock::time_point now, std::int32_t but_thread = 0);

private:
  struct seen {
    process_use use;
    clock::time_point at;
  };
  std::map<std::int32_t, seen> seen_;
};

} // namespace baton::cluster
