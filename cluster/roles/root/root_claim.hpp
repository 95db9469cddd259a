// How a process becomes the only root of a cluster. It adopts another root's processes only if it
// would have started the same ones.
#pragma once

#include "cluster/roles/roles.hpp"

namespace baton::cluster {

// The running cluster reads its own copy of nodes.toml: an edit of the original takes effect at the
// next `cluster up`.
result<std::filesystem::path> copy_config(const cluster_base& cluster);

// Whether running processes allow this configuration to start: no root, and no other cluster. For
// checks long before claim_cluster. Errors: conflict.
result<void> check_not_running(const run_dir& dir, const cluster_config& config);
// Error for processes of another root that this configuration cannot adopt.
error left_with_another(const run_dir& dir, const std::string& cluster, const std::string& why);

// Makes this process the root of a new cluster, or of what another root has left. Errors:
// conflict, address_in_use, io_failed.
result<void> claim_cluster(const cluster_contexts& all, const std::filesystem::path& config);

} // namespace baton::cluster
