// What the links between machines add, by what each has measured when it joined (link_probe.hpp).
#pragma once

#include "cluster/plan/machine.hpp"

#include <cstddef>
#include <string>

namespace baton::cluster {

// One way from a machine to another, by the links that they have to the root's: nobody has measured
// those between two others. Of machines whose link is not known: 0.
double way_seconds(const machines& known, const std::string& from, const std::string& to,
                   std::size_t bytes);

} // namespace baton::cluster
