// How a process becomes the root of a cluster: alone, and of what another root has left only if it
// would have started the same.
#pragma once

#include "cluster/roles/roles.hpp"

namespace baton::cluster {

// The running cluster reads its own copy of nodes.toml: an edit of the original takes effect at the
// next `cluster up`.
result<std::filesystem::path> copy_config(const cluster_base& cluster,
                                          const std::filesystem::path& original);

// Whether this configuration can come up here, as far as running processes go: of no root, and of
// no other cluster. For who would ask, say or start much ahead of claim_cluster. Errors: conflict.
result<void> check_not_running(const run_dir& dir, const cluster_config& config);
// What a root has left that another configuration than this cannot take over, and why.
error left_with_another(const run_dir& dir, const std::string& cluster, const std::string& why);

// This process becomes the root: of a new cluster, or of what another root has left. Errors:
// conflict, address_in_use, io_failed.
result<void> claim_cluster(const cluster_contexts& all, const std::filesystem::path& config);

} // namespace baton::cluster
