// Measures how fast this machine's memory can be read. It bounds decoding, because a step reads all
// weights once.
#pragma once

#include "schema/result.hpp"

#include <cstdint>
#include <vector>

namespace baton::cpu {

// Total GB/s of `threads` threads, once per round, over memory much larger than the caches.
// Takes about 0.1 s and 256 MiB. Errors: does_not_fit.
result<std::vector<double>> measure_read_bandwidth(std::uint32_t threads, int rounds);

} // namespace baton::cpu
