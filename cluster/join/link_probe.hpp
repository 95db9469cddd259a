// How fast the link to the root's machine is: asked of its desk before this machine joins, because
// the plan says what comes of it.
#pragma once

#include "cluster/config/curve_key.hpp"
#include "cluster/join/join_book.hpp"
#include "cluster/plan/machine.hpp"

namespace baton::cluster {

// Takes about four megabytes. Unknown if the desk does not answer, or does not let this machine
// join: it says why to whoever asks for that.
link_speed measure_link(const std::string& desk, const key_pair& own, const std::string& node,
                        const std::string& token);

} // namespace baton::cluster
