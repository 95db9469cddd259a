// Workers in these tests: two, and the first one after a restart.
#pragma once

#include "runtime/schedule/workers/worker_queue.hpp"

namespace baton::tests {

inline constexpr schedule::worker_incarnation first{{101}, {1}};
inline constexpr schedule::worker_incarnation second{{102}, {1}};
inline constexpr schedule::worker_incarnation first_again{{101}, {2}};

} // namespace baton::tests
