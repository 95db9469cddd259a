// The log of `cluster up` itself: a file in the run directory beside the logs of its processes. The
// terminal shows only the progress.
#pragma once

#include "cluster/files/run_dir.hpp"

#include <cstddef>

namespace baton::cluster {

inline constexpr std::size_t root_log_bytes_max = 16u << 20; // per file
inline constexpr std::size_t root_log_files_max = 2;         // rotated files kept

// Nothing is logged until open_root_log.
void silence_log();
// Sends this process's log to `root.log` at the level that `configured` stands for (log_level.hpp).
// Further calls change nothing. Only for the process that is, or is about to become, the root of
// this directory. Errors: io_failed.
result<void> open_root_log(const run_dir& dir, const std::string& configured);

} // namespace baton::cluster
