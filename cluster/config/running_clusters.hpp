// Which clusters run on this machine and where: by name, by nodes.toml, by run directory, or the
// one that runs alone. A cluster that has a cluster.run_dir of its own is noted where the others
// are:
//
//   PLACE/NAME/              the run directory of a cluster without cluster.run_dir
//   PLACE/+running/DIGEST    its name and its run directory, of any cluster of this user
//
// A note counts as long as a process that is noted in the run directory lives.
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

// The places, in which order they are looked through: $XDG_RUNTIME_DIR/baton (`xdg`, may be null),
// /run/user/UID/baton, /tmp/baton-UID, and that of the systemd unit, /run/baton/baton.
std::vector<std::filesystem::path> runtime_places(const char* xdg, uid_t user);

// From here on it is found by its name. Also removes the notes of those that have ended. Errors:
// io_failed.
result<void> note_running(const run_dir& dir, const std::string& name);
// Unless a process that is noted there lives, other than this one.
void forget_running(const run_dir& dir);

// All that run in these places, each once. Of a place of another user only where this one is root.
std::vector<running_cluster> running_clusters(const std::vector<std::filesystem::path>& places);

// `which` is a nodes.toml, a cluster's name, its run directory (with a slash), or empty: the one
// that runs. Where root asks for a cluster of another user, this process becomes that user: what it
// makes there is that user's. Errors: not_found (no such one runs; says where it looked), conflict
// (several run), forbidden (another user's), and those of reading nodes.toml.
result<running_cluster> find_cluster(const std::string& which);
// The name under which it was noted; nothing if it was not.
std::optional<std::string> noted_name(const run_dir& dir);

// The exit status of a command that has found none.
int exit_status_of_search(errc why) noexcept;
// The same, and prints why to stderr.
int refuse_search(const error& why);

} // namespace baton::cluster
