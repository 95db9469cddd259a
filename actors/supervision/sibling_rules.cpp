#include "actors/supervision/sibling_rules.hpp"

#include <algorithm>

namespace baton::actors {

std::vector<child*> stopped_with(std::vector<child>& all, const child& culprit,
                                 restart_strategy strategy) {
  std::vector<child*> stopped;
  if (strategy == restart_strategy::one_for_one)
    return stopped;
  const bool is_all = strategy == restart_strategy::one_for_all;
  for (auto c = all.rbegin(); c != all.rend(); ++c) {
    if (&*c == &culprit && !is_all)
      break;
    if (c->pid != 0 && c->phase != child_phase::stopping)
      stopped.push_back(&*c);
  }
  return stopped;
}

bool has_to_wait(const std::vector<child>& all, const child& c, restart_strategy strategy) {
  if (strategy == restart_strategy::one_for_one)
    return false;
  const bool is_all = strategy == restart_strategy::one_for_all;
  return std::any_of(all.begin(), all.end(), [&](const child& other) {
    const bool is_before = &other < &c;
    return other.phase == child_phase::stopping ||
           (is_before && other.phase == child_phase::backing_off) ||
           ((is_before || is_all) && other.phase == child_phase::given_up);
  });
}

} // namespace baton::actors
