// The effects of one child's end on its siblings, by the restart strategy. Pure.
#pragma once

#include "actors/supervision/supervised_children.hpp"

#include <vector>

namespace baton::actors {

// The running children that must be restarted with `culprit`, last first.
std::vector<child*> stopped_with(std::vector<child>& all, const child& culprit,
                                 restart_strategy strategy);

// With dependent children, each waits for those before it, and for none that was given up.
bool has_to_wait(const std::vector<child>& all, const child& c, restart_strategy strategy);

} // namespace baton::actors
