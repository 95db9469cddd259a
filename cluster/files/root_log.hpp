// The log of `cluster up` itself: a file in the run directory beside those of the processes that it
// starts. The terminal shows the progress, and nothing of this.
#pragma once

#include "cluster/files/run_dir.hpp"

#include <cstddef>

namespace baton::cluster {

inline constexpr std::size_t root_log_bytes_max = 16u << 20; // of a file
inline constexpr std::size_t root_log_files_max = 2;         // kept before it

// Until open_root_log nothing is logged.
void silence_log();
// What this process logs goes to `root.log` from here on, at the level that `configured` means
// (log_level.hpp). Once it is open, a further call changes nothing. Only for who is, or is about to
// become, the root of this directory. Errors: io_failed.
result<void> open_root_log(const run_dir& dir, const std::string& configured);

} // namespace baton::cluster
