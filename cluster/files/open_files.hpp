// The limit of open files of this process, sockets included.
#pragma once

#include <cstddef>

namespace baton::cluster {

// Descriptors per bus peer: the connections both ways and ZeroMQ's wake-up descriptors.
inline constexpr std::size_t files_per_peer = 5;
// Descriptors for everything else: libraries, logs, KV memory, the model.
inline constexpr std::size_t files_of_process = 64;

// Raises the soft limit, which is 1,024 for historical reasons, to what the system allows; returns
// the new limit.
std::size_t use_all_open_files() noexcept;

} // namespace baton::cluster
