// Devices with engines in libraries (docs/develop/engines.md): the type of their weights, valid
// combinations, and their use of the machine's memory.
#pragma once

#include "cluster/plan/plan.hpp"
#include "runtime/plugin/abi.hpp"

namespace baton::cluster {

// The type of weights on such a device: the operator's choice, else float32 for CPU tensors and
// bfloat16 in a device's own memory.
plugin::element weights_of(const model_config& model, const device& where);

// How it stores the matrices of layers.
plugin::quantization quantization_of(const model_config& model);

// Bytes of a shard's weights in the memory of its engine, whether the device's or the machine's.
std::uint64_t held_bytes_of(const model_config& config, const model::description& model,
                            const shard_plan& shard);

// Bytes of a shard's weights in its machine's memory, without the process's base memory.
std::uint64_t weight_bytes_of(const model_config& config, const model::description& model,
                              const shard_plan& shard);

// Errors: bad_config (names the key: a setting that some device does not support; ranks of one
// stage on devices of several engines; "auto" memory on a device with its own).
result<void> check_engines(const cluster_config& config, const cluster_plan& plan);

} // namespace baton::cluster
