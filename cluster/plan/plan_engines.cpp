#include "cluster/plan/plan_engines.hpp"

#include "cluster/plan/model_fit.hpp"
#include "runtime/cpu/panels/weight_block.hpp"

#include <algorithm>
#include <numeric>

namespace baton::cluster {

plugin::element weights_of(const model_config& model, const device& where) {
  if (model.dtype == "float32" || (model.dtype == "auto" && !where.has_own_memory()))
    return plugin::element::f32;
  return model.dtype == "float16" ? plugin::element::f16 : plugin::element::bf16;
}

plugin::quantization quantization_of(const model_config& model) {
  return model.quantization == "fp8"    ? plugin::quantization::fp8
         : model.quantization == "int4" ? plugin::quantization::int4
                                        : plugin::quantization::none;
}

namespace {

// Bytes per weight in a layer's matrix, with group scales but without scales per output.
double layer_weight_bytes(const model_config& config, double element) {
  switch (quantization_of(config)) {
  case plugin::quantization::fp8:
    return 1;
  case plugin::quantization::int4: // scale and minimum per group, 16 bits each
    return 0.5 + 4.0 / config.quantization_group_size;
  case plugin::quantization::none:
    break;
  }
  return element;
}

// The native engine's packed weights by those of the file, if that is more than weight_overhead,
// which is added to every shard.
double growth_above_overhead(const model::description& model) {
  double stored = 0, packed = 0;
  for (const auto& [type, bytes] : model.type_bytes) {
    stored += static_cast<double>(bytes);
    packed += static_cast<double>(bytes) * cpu::packed_growth(type);
  }
  return stored > 0 ? std::max(1.0, packed / stored / weight_overhead) : 1.0;
}

} // namespace

std::uint64_t held_bytes_of(const model_config& config, const model::description& model,
                            const shard_plan& shard) {
  if (shard.on_device.is_native())
    return shard.weight_bytes;
  const auto stored = std::accumulate(model.layer_bytes.begin(), model.layer_bytes.end(),
                                      model.embedding_bytes + model.output_norm_bytes +
                                          (model.has_tied_embeddings ? 0 : model.head_bytes));
  const double element = weights_of(config, shard.on_device) == plugin::element::f32 ? 4 : 2;
  const double per_byte = static_cast<double>(model.parameter_count) /
                          static_cast<double>(std::max<std::uint64_t>(stored, 1));
  // Embedding and head are never quantized.
  const double outside = static_cast<double>(
      std::min(shard.weight_bytes,
               (shard.layers.has_embedding ? model.embedding_bytes : 0) +
                   (shard.layers.has_head && !model.has_tied_embeddings ? model.head_bytes : 0)));
  const double layers = static_cast<double>(shard.weight_bytes) - outside;
  return static_cast<std::uint64_t>(
      per_byte * (outside * element + layers * layer_weight_bytes(config, element)));
}

std::uint64_t weight_bytes_of(const model_config& config, const model::description& model,
                              const shard_plan& shard) {
  if (shard.on_device.has_own_memory())
    return 0;
  const auto held = held_bytes_of(config, model, shard);
  return shard.on_device.is_native()
             ? static_cast<std::uint64_t>(static_cast<double>(held) * growth_above_overhead(model))
             : held;
}

result<void> check_engines(const cluster_config& config, const cluster_plan& plan) {
  const auto& m = config.model;
  const auto foreign = std::find_if(plan.shards.begin(), plan.shards.end(),
                                    [](const shard_plan& s) { return !s.on_device.is_native(); });
  if (foreign == plan.shards.end()) {
    if (m.dtype != "auto")
      return fail_param(errc::bad_config, "model.dtype",
                        "model.dtype is \"{}\", but the native engine computes with the types of "
                        "the model's file: leave it out",
                        m.dtype);
    if (m.quantization != "none")
      return fail_param(errc::bad_config, "model.quantization",
                        "model.quantization is \"{}\", but the native engine computes with the "
                        "types of the model's file: leave it out",
                        m.quantization);
    return {};
  }
  if (m.kv_cache_dtype == cpu::kv_format::q8_0)
    return fail_param(errc::bad_config, "model.kv_cache_dtype",
                      "device {} keeps no KV cache of type q8_0: f16 or f32 are possible",
                      foreign->device);
  const auto own = std::find_if(plan.shards.begin(), plan.shards.end(),
                                [](const shard_plan& s) { return s.on_device.has_own_memory(); });
  if (own != plan.shards.end() && !m.kv_cache_bytes)
    return fail_param(
        errc::bad_config, "model.kv_cache_bytes",
        "model.kv_cache_bytes = \"auto\" goes by the memory of machines, which is not "
        "that of device {}: give a size",
        own->device);
  for (const auto& s : plan.shards) {
    const auto& first = stage_of(plan, s).front();
    if (s.on_device.engine != first.on_device.engine)
      return fail_param(errc::bad_config, "nodes.devices",
                        "the ranks of stage {} are on devices {} and {}: ranks of one stage need "
                        "one kind of engine, stages need not",
                        s.stage, first.device, s.device);
  }
  return {};
}

} // namespace baton::cluster
