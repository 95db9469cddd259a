// The layers of a description: what each of them does in its own way, and what all do.
#include "runtime/model/describe_parts.hpp"

#include <vector>

namespace baton::model {
namespace {

// Whether each layer has a feature. A key lists it, or gives the period whose last layer has it
// not; without the key, the period is the family's. 0: all layers have it.
result<std::vector<bool>> layer_pattern(const model_file& file, const description& d,
                                        std::string_view key, std::uint32_t period) {
  const auto name = fmt::format("{}.{}", d.architecture, key);
  if (file.array_size(name)) {
    const auto list = file.get_u32s(name);
    if (!list) {
      return list.error();
    }
    if (list->size() < d.layer_count) {
      return fail(errc::bad_model_file, "metadata key '{}' is of {} layers, the model has {}",
                  file.original_name(name), list->size(), d.layer_count);
    }
    std::vector<bool> has;
    for (std::uint32_t i = 0; i < d.layer_count; ++i) {
      has.push_back((*list)[i] != 0);
    }
    return has;
  }
  const auto stated = file.get_u32(name, period);
  if (!stated) {
    return stated.error();
  }
  std::vector<bool> has;
  for (std::uint32_t i = 0; i < d.layer_count; ++i) {
    has.push_back(*stated == 0 || (i + 1) % *stated != 0);
  }
  return has;
}

// By the numbers of llama.cpp: 1 softmax, 2 sigmoid. Older files of families with groups do not
// say: those with biases of the choice have sigmoids.
result<void> read_router(const model_file& file, const family& kind, description& d) {
  const auto last = layer_tensor_name(d.layer_count - 1, "exp_probs_b.bias"); // a mixture has it
  const bool may_have_bias = kind.takes_choice_bias && file.find(last).has_value();
  d.has_choice_bias = kind.has_choice_bias || may_have_bias;
  const auto name = d.architecture + ".expert_gating_func";
  const bool has_sigmoids =
      kind.router == router_kind::sigmoid || (may_have_bias && kind.takes_expert_groups);
  const auto number = file.get_u32(name, has_sigmoids ? 2 : 1);
  if (!number) {
    return number.error();
  }
  if (*number != 1 && *number != 2) {
    return fail(errc::unsupported_model, "metadata key '{}' is {}: this build runs 1 and 2",
                file.original_name(name), *number);
  }
  d.router = *number == 2 ? router_kind::sigmoid : router_kind::softmax;
  return {};
}

result<void> read_expert_groups(const model_file& file, description& d) {
  const auto name = d.architecture + ".expert_group_count";
  const auto groups = file.get_u32(name, 1);
  const auto used = file.get_u32(d.architecture + ".expert_group_used_count", 1);
  if (!groups || !used) {
    return groups ? used.error() : groups.error();
  }
  if (*groups <= 1) { // 0: none
    return {};
  }
  const auto size = d.expert_count / *groups;
  if (d.expert_count % *groups != 0 || *used == 0 || *used > *groups ||
      *used * size < d.expert_used_count || size < 2) {
    return fail(errc::bad_model_file,
                "metadata key '{}' is {}: {} experts, of which {} groups and {} experts are used",
                file.original_name(name), *groups, d.expert_count, *used, d.expert_used_count);
  }
  d.expert_group_count = *groups;
  d.expert_group_used_count = *used;
  return {};
}

// Their width is a key, or a number of experts.
result<void> read_shared_experts(const model_file& file, const family& kind, description& d) {
  const auto count = file.get_u32(d.architecture + ".expert_shared_count", 0);
  const auto name = d.architecture + ".expert_shared_feed_forward_length";
  const auto width = file.get_u32(name, 0);
  if (!count || !width) {
    return count ? width.error() : count.error();
  }
  const std::uint64_t of_count = std::uint64_t{*count} * d.expert_ffn_size;
  const std::uint64_t size = *width != 0 ? *width : of_count;
  if (size > width_max) {
    return fail(errc::bad_model_file, "metadata key '{}' is {}, above {}", file.original_name(name),
                size, width_max);
  }
  d.shared_ffn_size = static_cast<std::uint32_t>(size);
  d.has_shared_gate = kind.has_shared_gate && size > 0;
  return {};
}

// Granite's scales, Cohere's scale of logits, and queries that grow with their position.
result<void> read_scales(const model_file& file, const family& kind, description& d) {
  size_reader scales(file, d.architecture);
  if (kind.takes_scales) {
    scales.read(d.embedding_scale, "embedding_scale", 1.0F);
    scales.read(d.residual_scale, "residual_scale", 1.0F);
    scales.read(d.attention_scale, "attention.scale", d.attention_scale);
  }
  if (kind.takes_logit_scale) {
    scales.read(d.logit_scale, "logit_scale", 1.0F);
  }
  if (scales.first_error()) {
    return *scales.first_error();
  }
  if (kind.divides_logits) {
    d.logit_scale = 1.0F / d.logit_scale;
  }
  const auto growth = file.get_f32(d.architecture + ".attention.temperature_scale", 0.0F);
  if (!growth) {
    return growth.error();
  }
  if (kind.takes_query_growth && *growth != 0.0F) {
    d.query_growth = {
        .weight = *growth, .offset = 0.0F, .length = d.ropes.front().original_context_size};
    if (d.query_growth.length == 0) {
      return fail(errc::bad_model_file, "metadata key '{}' without an original context",
                  file.original_name(d.architecture + ".attention.temperature_scale"));
    }
  }
  return {};
}

} // namespace

// Experts without their own width have that of the ffn, as in Mixtral.
result<void> read_experts(const model_file& file, const family& kind, description& d) {
  const auto count = file.get_u32(d.architecture + ".expert_count", 0);
  const auto norm = file.get_bool(d.architecture + ".expert_weights_norm", kind.normalises_experts);
  if (!count || !norm) {
    return count ? norm.error() : count.error();
  }
  if (*count == 0) {
    return {};
  }
  d.has_normalised_experts = *norm;
  d.has_router_bias = kind.has_router_bias;
  d.has_expert_bias = kind.has_expert_bias;
  d.has_ffn_beside_experts = kind.has_ffn_beside_experts;
  size_reader sizes(file, d.architecture);
  sizes.read(d.expert_count, "expert_count", expert_count_max);
  sizes.read(d.expert_used_count, "expert_used_count", d.expert_count);
  sizes.read(d.expert_ffn_size, "expert_feed_forward_length", width_max, d.ffn_size);
  sizes.read(d.expert_scale, "expert_weights_scale", 1.0F);
  if (sizes.first_error()) {
    return *sizes.first_error();
  }
  const auto older = layer_tensor_name(0, "ffn_gate.0.weight");
  if (file.find(older)) {
    return fail(errc::unsupported_model,
                "tensor '{}': a tensor for each expert is an older layout; this build reads those "
                "of all experts, '{}': convert the model again",
                older, layer_tensor_name(0, "ffn_gate_exps.weight"));
  }
  if (auto r = read_router(file, kind, d); !r) {
    return r;
  }
  if (auto r = kind.takes_expert_groups ? read_expert_groups(file, d) : result<void>(); !r) {
    return r;
  }
  return kind.takes_shared_experts ? read_shared_experts(file, kind, d) : result<void>();
}

result<void> read_attention(const model_file& file, const family& kind, description& d) {
  if (kind.takes_final_cap && file.has(d.architecture + ".final_logit_softcapping")) {
    size_reader cap(file, d.architecture);
    cap.read(d.final_soft_cap.emplace(), "final_logit_softcapping");
    if (cap.first_error()) {
      return *cap.first_error();
    }
  }
  const auto width = d.latent ? static_cast<double>(d.latent->query_size())
                     : d.layer_count == kind.wide_scale_layer_count
                         ? static_cast<double>(d.hidden_size) / d.head_count
                         : static_cast<double>(d.head_size);
  d.attention_scale =
      kind.has_unscaled_attention ? 1.0F : static_cast<float>(1.0 / std::sqrt(width));
  if (auto r = d.latent ? scale_latent_attention(file, d) : result<void>(); !r) {
    return r;
  }
  if (auto r = read_scales(file, kind, d); !r) {
    return r;
  }
  if (!kind.takes_soft_caps) {
    return {};
  }
  size_reader caps(file, d.architecture);
  caps.read(d.attention_soft_cap.emplace(), "attn_logit_softcapping");
  caps.read(d.final_soft_cap.emplace(), "final_logit_softcapping");
  if (caps.first_error()) {
    return *caps.first_error();
  }
  return {};
}

// GGUF has the keys of Mamba's layers for delta nets too.
static result<void> read_heads_of_states(const model_file& file, const family& kind,
                                         description& d) {
  auto& r = *d.recurrence;
  size_reader sizes(file, d.architecture);
  sizes.read(r.convolution_rows, "ssm.conv_kernel", convolution_rows_max);
  sizes.read(r.key_size, "ssm.state_size", recurrent_head_max);
  sizes.read(r.key_head_count, "ssm.group_count", width_max);
  sizes.read(r.value_head_count, "ssm.time_step_rank", width_max);
  sizes.read(r.output_size, "ssm.inner_size", width_max);
  if (sizes.first_error()) {
    return *sizes.first_error();
  }
  const auto grouped = file.get_bool(d.architecture + ".ssm.has_grouped_heads", false);
  if (!grouped) {
    return grouped.error();
  }
  r.value_size = r.output_size / r.value_head_count;
  r.alternates_key_heads = kind.alternates_key_heads && !*grouped;
  r.has_joint_weights = kind.has_joint_weights;
  r.has_joint_projection =
      kind.has_joint_weights && file.find(layer_tensor_name(0, "ssm_in.weight")).has_value();
  r.has_log_decay = *grouped;
  r.norm_size = r.kind == mixer_kind::mamba2 ? r.output_size / r.key_head_count : r.value_size;
  const auto channels = 2 * std::uint64_t{r.key_head_count} * r.key_size + r.output_size;
  if (r.value_head_count % r.key_head_count != 0 || r.output_size % r.value_head_count != 0 ||
      r.value_size > recurrent_head_max || r.convolution_rows < 2 || channels > width_max) {
    return fail(errc::bad_model_file,
                "recurrent layers of {} value heads in {} values, {} key heads of {}, and a "
                "convolution of {} rows do not fit together",
                r.value_head_count, r.output_size, r.key_head_count, r.key_size,
                r.convolution_rows);
  }
  r.channels = static_cast<std::uint32_t>(channels);
  return {};
}

result<void> read_recurrence(const model_file& file, const family& kind, description& d) {
  if (kind.recurrent == mixer_kind::attention) {
    return {};
  }
  auto& r = d.recurrence.emplace();
  r.kind = kind.recurrent;
  if (r.kind != mixer_kind::short_convolution) {
    return read_heads_of_states(file, kind, d);
  }
  r.channels = r.output_size = d.hidden_size;
  size_reader sizes(file, d.architecture);
  sizes.read(r.convolution_rows, "shortconv.l_cache", convolution_rows_max);
  if (sizes.first_error()) {
    return *sizes.first_error();
  }
  if (r.convolution_rows < 2) {
    return fail(errc::bad_model_file, "a convolution of {} rows", r.convolution_rows);
  }
  return {};
}

// Layers without KV heads are recurrent.
static result<std::vector<bool>> recurrent_layers_of(const model_file& file, const family& kind,
                                                     const description& d) {
  if (!d.recurrence) {
    return std::vector<bool>(d.layer_count);
  }
  if (kind.has_recurrent_period) {
    return layer_pattern(file, d, "full_attention_interval", kind.full_attention_period);
  }
  const auto name = d.architecture + ".attention.head_count_kv";
  if (!file.array_size(name)) {
    return std::vector<bool>(d.layer_count);
  }
  auto has_heads = layer_pattern(file, d, "attention.head_count_kv", 0);
  if (has_heads) {
    has_heads->flip();
  }
  return has_heads;
}

result<void> read_layers(const model_file& file, const family& kind, description& d) {
  const auto window =
      file.get_u32(d.architecture + ".attention.sliding_window", kind.default_window);
  if (!window) {
    return window.error();
  }
  const auto windowed =
      layer_pattern(file, d, "attention.sliding_window_pattern", kind.full_attention_period);
  const auto rotated = layer_pattern(file, d, "rope.layer_pattern", kind.unrotated_period);
  if (!windowed || !rotated) {
    return windowed ? rotated.error() : windowed.error();
  }
  const auto is_rotated =
      file.get_bool(d.architecture + ".rope.scaling.finetuned", /*otherwise=*/true);
  if (kind.takes_unrotated && !is_rotated) {
    return is_rotated.error();
  }
  const bool rotates = !kind.takes_unrotated || *is_rotated;
  const auto dense = file.get_u32(d.architecture + ".leading_dense_block_count", 0);
  if (!dense) {
    return dense.error();
  }
  if (d.expert_count > 0 && *dense >= d.layer_count) {
    return fail(errc::bad_model_file, "metadata key '{}' is {}: the model has {} layers",
                file.original_name(d.architecture + ".leading_dense_block_count"), *dense,
                d.layer_count);
  }
  const auto recurrent = recurrent_layers_of(file, kind, d);
  if (!recurrent) {
    return recurrent.error();
  }
  const std::uint32_t windowed_rope = d.ropes.size() > 1 ? 1 : 0;
  for (std::uint32_t i = 0; i < d.layer_count; ++i) {
    auto& layer = d.layers.emplace_back();
    layer.is_mixture = d.expert_count > 0 && i >= *dense;
    if ((*recurrent)[i]) {
      layer.mixer = d.recurrence->kind;
      continue;
    }
    layer.window = (*windowed)[i] ? *window : 0;
    if (rotates && (*rotated)[i] && !(kind.rotates_windowed && *window > 0 && layer.window == 0)) {
      layer.rope = layer.window > 0 ? windowed_rope : 0;
    }
    layer.grows_queries = d.query_growth.weight != 0.0F;
  }
  if (d.recurrence && d.recurrent_layers(0, d.layer_count) == 0) {
    d.recurrence.reset();
  }
  if (d.recurrent_layers(0, d.layer_count) == d.layer_count) {
    return fail(errc::unsupported_model, "'{}' has no layer with attention: this build needs one",
                d.name);
  }
  return {};
}

} // namespace baton::model
