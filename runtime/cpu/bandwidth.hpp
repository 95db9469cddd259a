// How fast this machine's memory can be read: what decoding is bound by, since a step reads all
// weights once.
#pragma once

#include "schema/result.hpp"

#include <cstdint>
#include <vector>

namespace baton::cpu {

// GB/s of `threads` threads together, once per round, over memory far larger than the caches.
// Takes about 0.1 s and 256 MiB. Errors: does_not_fit.
result<std::vector<double>> measure_read_bandwidth(std::uint32_t threads, int rounds);

} // namespace baton::cpu
