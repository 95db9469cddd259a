// Processes of a cluster that have no supervisor any more.
#pragma once

#include "cluster/files/run_dir.hpp"

namespace baton::cluster {

// Ends all processes recorded there except `except`, for instance the shards of an agent that was
// given up, which a successor would not know. SIGTERM, then SIGKILL. Returns their names, or "".
std::string end_left_over(const run_dir& dir, std::string_view except);

} // namespace baton::cluster
