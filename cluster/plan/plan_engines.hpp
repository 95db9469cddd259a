// What a plan has to know of devices whose engines live in libraries (docs/engines.md): in which
// type they hold weights, what cannot be together, what of the machine's memory they take.
#pragma once

#include "cluster/plan/plan.hpp"
#include "runtime/plugin/abi.hpp"

namespace baton::cluster {

// Of the weights on such a device: as the operator says, else float32 on CPU tensors and bfloat16
// in a device's own memory.
plugin::element weights_of(const model_config& model, const device& where);

// In which form it holds the matrices of the layers.
plugin::quantization quantization_of(const model_config& model);

// Bytes of a shard's weights where its engine holds them, a device's own memory or the machine's.
std::uint64_t held_bytes_of(const model_config& config, const model::description& model,
                            const shard_plan& shard);

// Bytes of a shard's weights in the memory of its machine, before what a process takes anyway.
std::uint64_t weight_bytes_of(const model_config& config, const model::description& model,
                              const shard_plan& shard);

// Errors: bad_config (names the key: a setting that none of the devices has, or one of them has
// not; ranks of one stage on devices of several engines; "auto" memory that is not the machine's).
result<void> check_engines(const cluster_config& config, const cluster_plan& plan);

} // namespace baton::cluster
