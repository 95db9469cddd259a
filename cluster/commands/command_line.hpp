// The command line of `cluster`, all of it: main.cpp adds nothing. A test makes a binary of its own
// from it, whose shards are the real ones but for their engine.
#pragma once

#include "cluster/roles/roles.hpp"

namespace baton::cluster {

// Returns the exit status. To call first thing in main, before any thread.
int run_command_line(int argc, char** argv, const engine_wrapper& wrap = {});

} // namespace baton::cluster
