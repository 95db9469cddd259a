// Fits models into the memory of one machine.
#pragma once

#include "cluster/plan/plan.hpp"

#include <cstdint>

namespace baton::cluster {

// Memory above the stored weights: repacked weights beside the file's pages, activations, sampler
// scratch.
inline constexpr double weight_overhead = 1.25;
inline constexpr std::uint64_t process_bytes = 64ull
                                               << 20; // per shard: code, actor system, buffers
// The share of the available memory that the choice of a file leaves for its KV cache.
inline constexpr double kv_share_of_choice = 0.125;

// The largest model file that runs in this much available memory beside a KV cache. The exact
// weights are known only when the file is there; fit_model uses these.
std::uint64_t file_bytes_that_fit(std::uint64_t memory_available) noexcept;

} // namespace baton::cluster
