// The running clusters of this machine: by name, by nodes.toml, by run directory, or the only one.
// A cluster with its own cluster.run_dir is also recorded in the runtime directory:
//
//   RUNTIME/NAME/              the run directory of a cluster without cluster.run_dir.
//   RUNTIME/+running/DIGEST    name and run directory of any cluster of this user.
//
// A record is valid while a process that is recorded in the run directory is alive.
#pragma once

#include "cluster/files/run_dir.hpp"

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace baton::cluster {

struct running_cluster {
  run_dir dir;
  std::string name;
};

// The runtime directories in search order: $XDG_RUNTIME_DIR/baton (`xdg`, may be null),
// /run/user/UID/baton, /tmp/baton-UID, and /run/baton/baton of the systemd unit.
std::vector<std::filesystem::path> runtime_dirs(const char* xdg, uid_t user);

// Makes the cluster known by its name. Also removes records of clusters that have ended. Errors:
// io_failed.
result<void> record_running(const run_dir& dir, const std::string& name);
// Removes the record, unless another recorded process is alive.
void forget_running(const run_dir& dir);

// All running clusters there, each once. Only root searches directories of other users.
std::vector<running_cluster> running_clusters(const std::vector<std::filesystem::path>& parents);
// The running clusters in the runtime directories of this process's user.
std::vector<running_cluster> running_clusters_here();

// `which`: a nodes.toml, a cluster's name, its run directory (with a slash), or empty for the only
// one. If root names a cluster of another user, this process becomes that user, who then owns new
// files. Errors: not_found (lists where it looked), conflict (several run), forbidden (another
// user's), and those of reading nodes.toml.
result<running_cluster> find_cluster(const std::string& which);
// The name under which it was recorded, if any.
std::optional<std::string> recorded_name(const run_dir& dir);

// The exit status of a command whose search failed.
int exit_status_of_search(errc why) noexcept;
// The same, and prints the reason to stderr.
int refuse_search(const error& why);

} // namespace baton::cluster
