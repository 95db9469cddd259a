// Delays of links between machines, as measured when each machine joined (link_probe.hpp).
#pragma once

#include "cluster/machines/machine.hpp"

#include <cstddef>
#include <string>

namespace baton::cluster {

// One-way delay between two machines, estimated from their links to the root's machine; links
// between others are not measured. 0 for a machine whose link is not known.
double way_seconds(const machines& known, const std::string& from, const std::string& to,
                   std::size_t bytes);

} // namespace baton::cluster
