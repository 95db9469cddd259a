// Latent attention, by the keys of llama.cpp.
#include "runtime/model/describe_parts.hpp"
#include "runtime/model/rope.hpp"

#include <algorithm>

namespace baton::model {

// GGUF has the sizes of the latents' KV head too: they follow from these. Older files have sizes
// and weights for keys and values of all heads.
result<void> read_latent(const model_file& file, description& d) {
  auto& l = d.latent.emplace();
  std::uint32_t query_size = 0;
  const bool is_older = !file.has(d.architecture + ".attention.key_length_mla");
  size_reader sizes(file, d.architecture);
  sizes.read(l.kv_rank, "attention.kv_lora_rank", width_max);
  sizes.read(query_size, is_older ? "attention.key_length" : "attention.key_length_mla", width_max);
  sizes.read(l.value_size, is_older ? "attention.value_length" : "attention.value_length_mla",
             width_max);
  sizes.read(l.rotated_size, "rope.dimension_count", width_max);
  l.has_joint_weights = !file.find(layer_tensor_name(0, "attn_k_b.weight")).has_value();
  const auto query_rank = file.get_u32(d.architecture + ".attention.q_lora_rank", 0);
  if (sizes.first_error() || !query_rank) {
    return sizes.first_error() ? *sizes.first_error() : query_rank.error();
  }
  if (*query_rank > width_max || l.rotated_size >= query_size || l.rotated_size % 2 != 0) {
    return fail(errc::bad_model_file,
                "queries of rank {} and size {}, of which {} dimensions are rotated", *query_rank,
                query_size, l.rotated_size);
  }
  l.query_rank = *query_rank;
  l.plain_size = query_size - l.rotated_size;
  d.kv_head_count = 1;
  d.head_size = l.rotated_size + l.kv_rank;
  d.ropes.front().dimension_count = l.rotated_size;
  const auto widest = std::max({d.head_size, query_size, l.value_size});
  if (std::uint64_t{d.head_count} * widest > width_max) {
    return fail(errc::bad_model_file, "{} heads of size {} exceed the width limit of {}",
                d.head_count, widest, width_max);
  }
  return {};
}

// Yarn scales the product of a query and a key by the square of its magnitude
// (modeling_deepseek_v3.py of transformers).
result<void> scale_latent_attention(const model_file& file, description& d) {
  const auto& rope = d.ropes.front();
  const auto stored = file.get_f32(d.architecture + ".rope.scaling.yarn_log_multiplier", 0.0F);
  if (!stored) {
    return stored.error();
  }
  if (!std::isfinite(*stored) || *stored < 0.0F) {
    return fail(errc::bad_model_file, "metadata key '{}' is {}, not 0 or more",
                file.original_name(d.architecture + ".rope.scaling.yarn_log_multiplier"), *stored);
  }
  if (rope.scaling == rope_scaling_kind::yarn && *stored != 0.0F) {
    const auto magnitude =
        yarn_magnitude(double{rope.scaling_factor}, double{*stored} / latent_yarn_part);
    d.attention_scale *= static_cast<float>(magnitude * magnitude);
  }
  return {};
}

} // namespace baton::model
