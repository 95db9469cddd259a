// Checks a configuration and its files before any machine has joined and any process has started.
// Used by `cluster plan` and `cluster up`.
#pragma once

#include "cluster/config/config.hpp"
#include "cluster/machines/machine.hpp"
#include "cluster/plan/plan_record.hpp"
#include "schema/result.hpp"

namespace baton::cluster {

// Facts for a node that has not joined: `like`, with every core that its devices name.
machine_facts assumed_machine(const node_config& node, machine_facts like);

// Checks before machines join that the model can be partitioned as configured, wherever its shards
// will run. Machines that have not joined count as sufficient; so does this one while they may take
// its layers. If all are known, no plan is made here: load_contexts, which follows, makes the plan
// that will run. Also checks that repository and store exist. Errors: as of a plan; bad_config (a
// directory cannot be read).
result<void> check_files(const cluster_config& config, plan_record with);

} // namespace baton::cluster
