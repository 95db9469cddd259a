#include "cluster/roles/root/drain_watch.hpp"

#include <fmt/format.h>

namespace baton::cluster {
namespace {

// A gateway that may have open streams.
bool is_serving(const status& s) {
  return s.role == role::gateway && (s.phase == phase::ready || s.phase == phase::draining);
}

} // namespace

draining_gateways look_at(const std::vector<status>& nodes) {
  draining_gateways all;
  for (const auto& s : nodes) {
    if (!is_serving(s))
      continue;
    all.is_over = false;
    all.has_reported = all.has_reported && s.phase == phase::draining;
    all.still_open += fmt::format("{}{}: {}", all.still_open.empty() ? "" : ", ", s.name,
                                  s.phase == phase::draining ? s.reason : "has not answered");
  }
  return all;
}

void drain_watch::begin(const std::vector<status>& nodes) {
  for (const auto& s : nodes)
    if (is_serving(s))
      had_streams_.insert(s.process);
}

void drain_watch::observe(const std::vector<status>& nodes) {
  for (const auto& s : nodes) {
    if (!had_streams_.contains(s.process) || is_serving(s) || s.phase == phase::stopped)
      continue;
    loss_ = fmt::format("{} was lost while it drained", s.name);
    lost_.emplace(s.process, s.incarnation);
  }
}

} // namespace baton::cluster
