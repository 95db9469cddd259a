// The whole command line of `cluster`: main.cpp adds nothing. Tests build a binary from it whose
// shards differ only in their engine.
#pragma once

#include "cluster/roles/roles.hpp"

namespace baton::cluster {

// Returns the exit status. Call it first in main, before any thread.
int run_command_line(int argc, char** argv, const engine_wrapper& wrap = {});

} // namespace baton::cluster
