// What a configuration and its files say before any machine has joined and any process has
// started. `cluster plan` and `cluster up` ask it first.
#pragma once

#include "cluster/config/config.hpp"
#include "cluster/plan/machine.hpp"
#include "cluster/plan/plan_note.hpp"
#include "schema/result.hpp"

namespace baton::cluster {

// Of a node whose machine has not joined: `like`, with every core that its devices name.
machine_facts assumed_machine(const node_config& node, machine_facts like);

// Whether the model can be cut as the configuration has it, wherever its shards will run: machines
// that have not joined have all that is asked of them, and so has this one while they may take its
// layers. Whether a repository and a store are there. Errors: as of a plan; bad_config (a directory
// that cannot be read).
result<void> check_files(const cluster_config& config, plan_note with);

} // namespace baton::cluster
