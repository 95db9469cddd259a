// One request of a command to the root of a running cluster, and its answer, over the bus.
#pragma once

#include "cluster/files/run_dir.hpp"
#include "schema/messages.hpp"

namespace baton::cluster {

// Errors: link_down (no answer within 3 s), as process::start.
result<cluster_status> ask_status(const run_dir& dir);
// `order`: change_nodes, scale_model or remove_node.
result<nodes_changed> ask_to_change(const run_dir& dir, const message& order);

} // namespace baton::cluster
