// How many files, sockets among them, this process may have open.
#pragma once

#include <cstddef>

namespace baton::cluster {

// A peer on the bus takes so many: the connections both ways, and what ZeroMQ wakes its threads
// with.
inline constexpr std::size_t files_per_peer = 5;
// What a process has besides: libraries, logs, KV memory, the model.
inline constexpr std::size_t files_of_process = 64;

// Raises the bound, which for historical reasons begins at 1,024, to what the system allows this
// process; returns it.
std::size_t use_all_open_files() noexcept;

} // namespace baton::cluster
