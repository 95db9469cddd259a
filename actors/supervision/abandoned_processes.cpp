#include "actors/supervision/abandoned_processes.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace baton::actors {

void abandoned_processes::add(const child& c) {
  all_.push_back({c.spec.name, c.spec.process, c.incarnation, c.pid});
}

bool abandoned_processes::take_exit(const child_exited& m) {
  const auto it = std::find_if(all_.begin(), all_.end(), [&](const process& p) {
    return p.id == m.process && p.incarnation == m.incarnation;
  });
  if (it == all_.end())
    return false;
  spdlog::info("{}: the abandoned process {} has ended: {}", it->name, it->pid, m.how);
  all_.erase(it);
  return true;
}

void abandoned_processes::log() const {
  for (const auto& p : all_)
    spdlog::error("{}: the abandoned process {} has not ended yet", p.name, p.pid);
}

} // namespace baton::actors
