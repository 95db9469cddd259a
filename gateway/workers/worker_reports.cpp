#include "gateway/workers/worker_reports.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace baton::gateway {

worker_reports::worker_reports(std::function<void(const status&)> report,
                               std::vector<worker_process> processes)
    : report_(std::move(report)), processes_(std::move(processes)) {}

std::string worker_reports::name_of(process_id process) const {
  const auto it = std::find_if(processes_.begin(), processes_.end(),
                               [&](const worker_process& p) { return p.process == process; });
  return it != processes_.end() ? it->name : fmt::format("process {}", process.value);
}

void worker_reports::report(worker_incarnation w, phase p, std::string reason) const {
  report_({.process = w.process,
           .incarnation = w.incarnation,
           .role = role::worker,
           .name = name_of(w.process),
           .phase = p,
           .reason = std::move(reason),
           .pid = 0,
           .restarts = 0,
           .progress = 0});
}

bool worker_reports::repeat_if_condemned(worker_incarnation w) const {
  const auto c = condemned_.find(w.process);
  if (c == condemned_.end() || c->second.first != w)
    return false;
  report(w, phase::failed, c->second.second);
  return true;
}

void worker_reports::ready(worker_incarnation w) {
  condemned_.erase(w.process);
  report(w, phase::ready, "");
}

void worker_reports::condemn(worker_incarnation w, const std::string& why) {
  spdlog::warn("ending {}: {}", name_of(w.process), why);
  condemned_[w.process] = {w, why};
  report(w, phase::failed, why);
}

void worker_reports::ended(worker_incarnation w) {
  const auto c = condemned_.find(w.process);
  if (c != condemned_.end() && c->second.first == w)
    condemned_.erase(c);
}

void worker_reports::repeat_all(const std::vector<worker_incarnation>& linked) const {
  for (const auto w : linked)
    report(w, phase::ready, "");
  for (const auto& [process, c] : condemned_)
    report(c.first, phase::failed, c.second);
}

} // namespace baton::gateway
