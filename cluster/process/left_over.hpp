// Processes of a cluster that nobody supervises any more.
#pragma once

#include "cluster/files/run_dir.hpp"

namespace baton::cluster {

// Ends all that are noted there but `except`: the shards of an agent that was given up, for
// instance, whom whoever comes later would not know. SIGTERM, then SIGKILL. Their names; "": none.
std::string end_left_over(const run_dir& dir, std::string_view except);

} // namespace baton::cluster
