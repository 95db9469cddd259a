#include "cluster/roles/root/drain_watch.hpp"

#include <fmt/format.h>

namespace baton::cluster {
namespace {

bool is_serving(const status& gateway) {
  return gateway.phase == phase::ready || gateway.phase == phase::draining;
}

} // namespace

draining_gateways look_at(const std::vector<status>& nodes) {
  draining_gateways all;
  for (const auto& s : nodes) {
    if (s.role != role::gateway || s.phase == phase::stopped)
      continue;
    if (!is_serving(s)) {
      all.lost = &s;
      continue;
    }
    all.is_over = false;
    all.has_reported = all.has_reported && s.phase == phase::draining;
    all.still_open += fmt::format("{}{}: {}", all.still_open.empty() ? "" : ", ", s.name,
                                  s.phase == phase::draining ? s.reason : "has not answered");
  }
  return all;
}

void drain_watch::begin(const std::vector<status>& nodes) {
  is_draining_ = true;
  for (const auto& s : nodes)
    if (s.role == role::gateway && is_serving(s))
      had_streams_.insert(s.process);
}

void drain_watch::observe(const std::vector<status>& nodes) {
  if (!is_draining_)
    return;
  const auto* gone = look_at(nodes).lost;
  if (!gone || !had_streams_.contains(gone->process))
    return;
  loss_ = fmt::format("{} was lost while it drained", gone->name);
  lost_.emplace(gone->process, gone->incarnation);
}

} // namespace baton::cluster
