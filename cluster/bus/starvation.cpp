#include "cluster/bus/starvation.hpp"

#include "cluster/files/proc_stat.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>

namespace baton::cluster {
namespace fs = std::filesystem;
namespace {

// Starved is below a quarter of the elapsed time, kept off by other processes or the host.
constexpr std::uint64_t share_divisor = 4;

constexpr std::chrono::seconds remembered_for{60};

std::optional<process_use> use_of_thread(const fs::path& stat) {
  const auto fields = stat_fields(stat, 13);
  if (!fields)
    return std::nullopt;
  process_use use;
  use.cpu_ticks = std::stoull((*fields)[11]) + std::stoull((*fields)[12]); // utime, stime
  use.is_runnable = (*fields)[0] == "R";
  return use;
}

} // namespace

std::optional<process_use> use_of(std::int32_t pid, std::int32_t but) {
  std::optional<process_use> all;
  std::error_code failed;
  const auto left_out = std::to_string(but);
  for (const auto& thread : fs::directory_iterator(fmt::format("/proc/{}/task", pid), failed))
    if (thread.path().filename() == left_out)
      continue;
    else if (const auto one = use_of_thread(thread.path() / "stat")) {
      if (!all)
        all.emplace();
      all->cpu_ticks += one->cpu_ticks;
      all->is_runnable |= one->is_runnable;
    }
  return all;
}

bool is_starved(const process_use& before, const process_use& now, std::chrono::milliseconds span) {
  static const auto ticks_per_second = static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
  const auto got = now.cpu_ticks - std::min(before.cpu_ticks, now.cpu_ticks);
  const auto could = static_cast<std::uint64_t>(span.count()) * ticks_per_second / 1000;
  return before.is_runnable && now.is_runnable && got * share_divisor < could;
}

bool starvation_watch::look(std::int32_t pid, clock::time_point now, std::int32_t but_thread) {
  std::erase_if(seen_, [&](const auto& one) { return now - one.second.at > remembered_for; });
  const auto use = use_of(pid, but_thread);
  if (!use)
    return false;
  const auto [it, is_first] = seen_.try_emplace(pid, seen{*use, now});
  const auto before = std::exchange(it->second, {*use, now});
  return !is_first &&
         is_starved(before.use, *use,
                    std::chrono::duration_cast<std::chrono::milliseconds>(now - before.at));
}

} // namespace baton::cluster
