// Measures the link to the root's machine before this machine joins, because the plan depends on
// it.
#pragma once

#include "cluster/join/join_registry.hpp"
#include "cluster/keys/curve_key.hpp"
#include "cluster/machines/machine.hpp"

namespace baton::cluster {

// Transfers about four megabytes. Unknown if the server does not answer, or does not let this
// machine join; join_registry reports the reason to a request to join.
link_speed measure_link(const std::string& server, const key_pair& own, const std::string& node,
                        const std::string& token);

} // namespace baton::cluster
