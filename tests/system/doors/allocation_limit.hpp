// Replaces operator new of a test program: allocations beyond a limit throw std::bad_alloc in the
// threads of the doors, as they do where memory ends.
#pragma once

#include <cstddef>

namespace baton::tests {

// The threads that exist now are never limited: actors and the main thread. Call it once, before
// the doors start.
void exempt_threads_from_allocation_limit();

// 0: no limit.
void limit_allocations(std::size_t bytes);

} // namespace baton::tests
