// Replaces operator new of a test program: in the server threads, allocations beyond a limit throw
// std::bad_alloc, as they do when memory runs out.
#pragma once

#include <cstddef>

namespace baton::tests {

// Threads that exist now are never limited: actors and the main thread. Call it once, before the
// servers start.
void exempt_threads_from_allocation_limit();

// 0: no limit.
void limit_allocations(std::size_t bytes);

} // namespace baton::tests
