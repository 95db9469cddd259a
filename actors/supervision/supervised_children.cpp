#include "actors/supervision/supervised_children.hpp"

#include <utility>

namespace baton::actors {

child& supervised_children::add(const child_spec& spec) {
  child c{.spec = spec, .policy = schedule::retry_policy(spec.intensity)};
  children_.push_back(std::move(c));
  reindex();
  return children_.back();
}

void supervised_children::remove(process_id process) {
  std::erase_if(children_, [&](const child& x) { return x.spec.process == process; });
  reindex();
}

// After children were added or removed: their addresses have changed.
void supervised_children::reindex() {
  by_process_.clear();
  unreported_.clear();
  for (auto& c : children_) {
    by_process_.emplace(c.spec.process, &c);
    if (c.is_unreported)
      unreported_.push_back(&c);
  }
}

child* supervised_children::find(process_id process) {
  const auto c = by_process_.find(process);
  return c == by_process_.end() ? nullptr : c->second;
}

child* supervised_children::find(process_id process, incarnation_id incarnation) {
  auto* c = find(process);
  return c != nullptr && c->incarnation == incarnation ? c : nullptr;
}

child* supervised_children::find_elsewhere(process_id process) {
  auto* c = find(process);
  return c != nullptr && c->spec.is_elsewhere ? c : nullptr;
}

void supervised_children::record(child& c, status now) {
  c.last = std::move(now);
  if (!std::exchange(c.is_unreported, true))
    unreported_.push_back(&c);
}

void supervised_children::record(child& c, phase p, std::string reason) {
  record(c, status{.process = c.spec.process,
                   .incarnation = c.incarnation,
                   .role = c.spec.role,
                   .name = c.spec.name,
                   .phase = p,
                   .reason = std::move(reason),
                   .pid = c.pid});
}

std::vector<child*> supervised_children::take_unreported() {
  auto changed = std::exchange(unreported_, {});
  for (auto* c : changed)
    c->is_unreported = false;
  return changed;
}

} // namespace baton::actors
