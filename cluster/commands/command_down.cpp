// `cluster down`: asks the root to drain and stop, then ends remaining processes by their pid
// files.
#include "cluster/commands/commands.hpp"
#include "cluster/config/config.hpp"

#include <poll.h>

#include <csignal>
#include <cstdio>

namespace baton::cluster {
namespace {

using clock = std::chrono::steady_clock;

bool wait_gone(const run_dir& dir, clock::time_point deadline) {
  while (!dir.alive().empty()) {
    if (clock::now() > deadline)
      return false;
    poll(nullptr, 0, 20);
  }
  return true;
}

} // namespace

int command_down(const std::string& which, std::chrono::seconds patience) {
  const auto found = find_cluster(which);
  if (!found)
    return refuse_search(found.error());
  const auto* dir = &found->dir;
  bool has_root = false;
  for (const auto& record : dir->alive())
    if (record.name == "root") {
      has_root = true;
      signal_recorded(record, SIGTERM);
    }
  if (has_root && wait_gone(*dir, clock::now() + patience)) {
    std::puts("stopped");
    return 0;
  }
  for (int number : {SIGTERM, SIGKILL}) {
    for (const auto& record : dir->alive())
      signal_recorded(record, number);
    if (wait_gone(*dir, clock::now() + std::chrono::seconds(5))) {
      std::puts(has_root ? "stopped (processes that did not end by themselves were killed)"
                         : "stopped (there was no root)");
      return 0;
    }
  }
  for (const auto& record : dir->alive())
    std::fprintf(stderr, "%s (pid %d) cannot be ended\n", record.name.c_str(), record.pid);
  return 1;
}

} // namespace baton::cluster
