// Fits a model into the memory of one machine: which file to choose, and how much context and KV
// cache its weights leave room for. Pure.
#pragma once

#include "cluster/plan/plan.hpp"

#include <cstdint>
#include <string>

namespace baton::cluster {

// Memory above the stored weights: repacked weights beside the file's pages, activations, sampler
// scratch.
inline constexpr double weight_overhead = 1.25;
inline constexpr std::uint64_t process_bytes = 64ull << 20; // code, actor system, buffers
// The share of the available memory that the choice of a file leaves for its KV cache.
inline constexpr double kv_share_of_choice = 0.125;
// Fewer tokens of context are not worth a start, unless the model was trained with fewer.
inline constexpr std::uint32_t context_min = 512;

// Memory of a shard in its machine, without its KV.
inline std::uint64_t bytes_without_kv(const shard_plan& shard) noexcept {
  return static_cast<std::uint64_t>(static_cast<double>(shard.machine_bytes) * weight_overhead) +
         process_bytes;
}

// The largest model file that runs in this much available memory beside a KV cache. An estimate
// for files that are not there yet; fit_model knows the weights.
std::uint64_t file_bytes_that_fit(std::uint64_t memory_available) noexcept;

struct model_fit {
  std::uint32_t max_model_len = 0;
  std::uint32_t trained_len = 0;
  std::uint64_t kv_cache_bytes = 0;
  std::uint64_t weight_bytes = 0; // in memory
  std::uint64_t memory_available = 0;
};

// The context and the KV cache with which a model of one pipeline on this machine's processors
// fits. A max_model_len in the configuration is kept; otherwise it is the model's, or what fits.
// The KV cache is the default, or one sequence of that length if that is more, and at most
// auto_kv_memory_share of what the weights leave. Errors: does_not_fit (names weights, memory and
// the context that would fit), those of make_plan.
result<model_fit> fit_model(const cluster_config& config, const model::description& model,
                            const machine_facts& machine);

// One line for people.
std::string text_of(const model_fit& fit);

} // namespace baton::cluster
