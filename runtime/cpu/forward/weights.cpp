// Assigns memory to every tensor and allocates it; weight_placement.cpp reads and packs them.
#include "runtime/cpu/forward/weights.hpp"

#include "runtime/cpu/forward/weight_placement.hpp"
#include "runtime/cpu/panels/weight_block.hpp"
#include "runtime/model/rope.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

namespace baton::cpu {
namespace {

class weight_plan {
public:
  weight_plan(const model::model_file& file, layout_cursor cursor) : file_(file), cursor_(cursor) {}

  // All rows and columns, or a part of them.
  packed_matrix matrix(const std::string& name, std::optional<extent> part = {},
                       std::optional<extent> part_of_columns = {}) {
    const model::tensor_view* tensor = find(name);
    if (tensor == nullptr)
      return {};
    const auto format = panel_format_of(tensor->type);
    if (!format || tensor->columns() % block_columns != 0) {
      failure_ = fail(errc::unsupported_model,
                      "tensor '{}' ({}, rows of {}): the CPU engine needs {} and rows in multiples "
                      "of {}",
                      file_.original_name(name), model::tensor_type_traits(tensor->type).name,
                      tensor->columns(), model::supported_tensor_types(), block_columns);
      return {};
    }
    const extent rows = part.value_or(extent{0, tensor->rows()});
    const extent columns = part_of_columns.value_or(extent{0, tensor->columns()});
    const std::uint64_t block =
        std::lcm(block_columns, model::tensor_type_traits(tensor->type).block_elements);
    if (part_of_columns && (columns.first % block != 0 || columns.count % block != 0)) {
      failure_ =
          fail(errc::unsupported_model,
               "tensor '{}' ({}): a slice of columns {} to {} does not align with its blocks of {}",
               file_.original_name(name), model::tensor_type_traits(tensor->type).name,
               columns.first, columns.first + columns.count, block);
      return {};
    }
    packed_matrix m{*format, rows.count, columns.count, nullptr, code_table_of(tensor->type)};
    auto* to = cursor_.part<std::byte>(m.size_bytes());
    m.panels = to;
    placements_.push_back(
        {.tensor = tensor, .rows = rows, .columns = columns, .to = to, .is_vector = false});
    return m;
  }

  // Several ranges of rows as one matrix, in their order. Requires: whole panels, but the last.
  packed_matrix joined(const std::string& name, std::initializer_list<extent> parts) {
    packed_matrix whole;
    for (const extent& part : parts) {
      const auto m = matrix(name, part);
      if (whole.rows == 0)
        whole = m;
      else
        whole.rows += m.rows;
    }
    return whole;
  }

  // A matrix whose outputs are the columns of a tensor, and whose inputs are some of its rows.
  packed_matrix transposed(const std::string& name, const extent& inputs) {
    const model::tensor_view* tensor = find(name);
    if (tensor == nullptr)
      return {};
    if (inputs.count % block_columns != 0) {
      failure_ = fail(errc::unsupported_model,
                      "tensor '{}': the CPU engine transposes rows in multiples of {}, not {}",
                      file_.original_name(name), block_columns, inputs.count);
      return {};
    }
    const auto type = transposed_type(tensor->type);
    packed_matrix m{*panel_format_of(type), tensor->columns(), inputs.count, nullptr,
                    code_table_of(type)};
    auto* to = cursor_.part<std::byte>(m.size_bytes());
    m.panels = to;
    placements_.push_back({.tensor = tensor,
                           .rows = inputs,
                           .columns = {},
                           .to = to,
                           .is_vector = false,
                           .is_transposed = true});
    return m;
  }

  const float* vector(const std::string& name, std::optional<extent> part = {},
                      vector_form form = vector_form::stored) {
    const model::tensor_view* tensor = find(name);
    if (tensor == nullptr)
      return nullptr;
    const extent columns = part.value_or(extent{0, tensor->elements()});
    auto* to = cursor_.part<float>(columns.count);
    placements_.push_back({.tensor = tensor,
                           .rows = {},
                           .columns = columns,
                           .to = reinterpret_cast<std::byte*>(to),
                           .is_vector = true,
                           .form = form});
    return to;
  }

  const std::vector<placement>& placements() const noexcept { return placements_; }
  const std::optional<error>& failure() const noexcept { return failure_; }
  std::size_t size_bytes() const noexcept { return cursor_.used_bytes(); }

private:
  const model::tensor_view* find(const std::string& name) {
    for (const auto& tensor : file_.tensors())
      if (tensor.name == name)
        return &tensor;
    failure_ = fail(errc::bad_model_file, "tensor '{}' is not in {}", file_.original_name(name),
                    file_.path().string());
    return nullptr;
  }

  const model::model_file& file_;
  layout_cursor cursor_;
  std::vector<placement> placements_;
  std::optional<error> failure_;
};

// The rows of a slice: of queries, of keys or values, and of gate or up. In a mixture `ffn` belongs
// to an expert; dense layers and shared experts have their own ranges.
struct layer_slice {
  extent query, kv, ffn, dense, shared;
  model::index_range heads;
  bool is_first_rank;

  layer_slice(const model::description& model, const model::tensor_slice& slice,
              std::uint32_t layer)
      : query(rows_of_heads(slice.heads, model.heads_of(layer).size)),
        kv(rows_of_heads(model::kv_heads_of(model, slice.heads, layer),
                         model.heads_of(layer).size)),
        ffn{slice.ffn.first, slice.ffn.count}, dense(ffn), heads(slice.heads),
        is_first_rank(slice.rank == 0) {
    if (model.layers[layer].ffn_size != 0) // which no rank cuts
      dense = {0, model.layers[layer].ffn_size};
    else if (model.is_mixed())
      dense = beside(model, slice, model.ffn_size);
    if (model.shared_ffn_size > 0)
      shared = beside(model, slice, model.shared_ffn_size);
  }

  static extent rows_of_heads(const model::index_range& heads, std::uint64_t size) {
    return {heads.first * size, heads.count * size};
  }
  static extent beside(const model::description& model, const model::tensor_slice& slice,
                       std::uint32_t size) {
    const auto part = model::part_beside(slice.ffn, model.expert_ffn_size, size, model.cuts.ffn);
    return {part.first, part.count};
  }
};

// The matrices of each expert are contiguous, because a step reads only the used experts. Each is a
// range of rows of a tensor that holds all experts. Ranks sum their outputs, so the first one adds
// the biases of `down`.
std::vector<ffn_weights> add_experts(weight_plan& plan, const model::description& model,
                                     const layer_slice& own, std::uint32_t layer) {
  const auto name = [&](std::string_view role) { return model::layer_tensor_name(layer, role); };
  std::vector<ffn_weights> experts(model.expert_count);
  for (std::uint64_t e = 0; e < experts.size(); ++e) {
    const extent rows = shifted(e * model.expert_ffn_size, own.ffn);
    const extent outputs{e * model.hidden_size, model.hidden_size};
    if (model.has_fused_experts) {
      const extent gates = shifted(2 * e * model.expert_ffn_size, own.ffn);
      experts[e].gate = plan.matrix(name("ffn_gate_up_exps.weight"), gates);
      experts[e].up =
          plan.matrix(name("ffn_gate_up_exps.weight"), shifted(model.expert_ffn_size, gates));
    } else {
      experts[e].gate = plan.matrix(name("ffn_gate_exps.weight"), rows);
      experts[e].up = plan.matrix(name("ffn_up_exps.weight"), rows);
    }
    experts[e].down = plan.matrix(name("ffn_down_exps.weight"), outputs, own.ffn);
    if (!model.has_expert_bias)
      continue;
    experts[e].gate_bias = plan.vector(name("ffn_gate_exps.bias"), rows);
    experts[e].up_bias = plan.vector(name("ffn_up_exps.bias"), rows);
    if (own.is_first_rank)
      experts[e].down_bias = plan.vector(name("ffn_down_exps.bias"), outputs);
  }
  return experts;
}

void add_mixture(weight_plan& plan, const model::description& model, const layer_slice& own,
                 std::uint32_t index, layer_weights& layer) {
  const auto name = [&](std::string_view role) { return model::layer_tensor_name(index, role); };
  layer.router = plan.matrix(name("ffn_gate_inp.weight"));
  if (model.has_router_bias)
    layer.router_bias = plan.vector(name("ffn_gate_inp.bias"));
  if (model.has_choice_bias)
    layer.choice_bias = plan.vector(name("exp_probs_b.bias"));
  layer.experts = add_experts(plan, model, own, index);
  if (model.has_ffn_beside_experts) {
    layer.router_gain = plan.vector(name("ffn_gate_inp.scale"));
    layer.expert_scales = plan.vector(name("ffn_down_exps.scale"));
    layer.experts_norm = plan.vector(name("pre_ffw_norm_2.weight"));
    layer.post_dense_norm = plan.vector(name("post_ffw_norm_1.weight"));
    layer.post_experts_norm = plan.vector(name("post_ffw_norm_2.weight"));
  }
  if (model.shared_ffn_size == 0)
    return;
  layer.shared.gate = plan.matrix(name("ffn_gate_shexp.weight"), own.shared);
  layer.shared.up = plan.matrix(name("ffn_up_shexp.weight"), own.shared);
  layer.shared.down = plan.matrix(name("ffn_down_shexp.weight"), {}, own.shared);
  if (model.has_shared_gate)
    layer.shared_gate = plan.matrix(name("ffn_gate_inp_shexp.weight"));
}

// The biases of q, k and v, the norms of q and k, and the output come with them.
void add_attention(weight_plan& plan, const model::description& model, const layer_slice& own,
                   std::uint32_t index, layer_weights& layer) {
  const auto name = [&](std::string_view role) { return model::layer_tensor_name(index, role); };
  const auto vector_if = [&](bool has, std::string_view role, std::optional<extent> part = {}) {
    return has ? plan.vector(name(role), part) : nullptr;
  };
  const bool has_own_kv = model.has_own_kv(index);
  if (model.has_fused_qkv) {
    const std::string fused = name("attn_qkv.weight");
    const std::uint64_t keys = model.q_size(index), values = keys + model.kv_size(index);
    layer.query = plan.matrix(fused, own.query);
    layer.key = plan.matrix(fused, shifted(keys, own.kv));
    layer.value = plan.matrix(fused, shifted(values, own.kv));
  } else {
    const std::uint64_t size = model.heads_of(index).size;
    const extent queries = model.has_attention_gate
                               ? extent{2 * own.query.first, own.query.count, size, 2 * size}
                               : own.query;
    layer.query = plan.matrix(name("attn_q.weight"), queries);
    if (model.has_attention_gate)
      layer.attention_gate = plan.matrix(name("attn_q.weight"), shifted(size, queries));
    if (has_own_kv)
      layer.key = plan.matrix(name("attn_k.weight"), own.kv);
    if (has_own_kv && !model.layers[index].has_keys_as_values)
      layer.value = plan.matrix(name("attn_v.weight"), own.kv);
  }
  layer.query_bias = vector_if(model.has_attention_bias, "attn_q.bias", own.query);
  layer.key_bias = vector_if(model.has_attention_bias, "attn_k.bias", own.kv);
  layer.value_bias = vector_if(model.has_attention_bias, "attn_v.bias", own.kv);
  const bool has_norms = model.qk_norm != model::qk_norm_kind::none;
  layer.query_norm = vector_if(has_norms, "attn_q_norm.weight");
  layer.key_norm = vector_if(has_norms && has_own_kv, "attn_k_norm.weight");
  layer.sinks =
      vector_if(model.has_sinks, "attn_sinks.weight", extent{own.heads.first, own.heads.count});
  layer.attention_out = plan.matrix(name("attn_output.weight"), {}, own.query);
  layer.attention_out_bias = vector_if(model.has_attention_out_bias, "attn_output.bias");
}

// A rank has the matrices of its heads, and the whole projection to latents.
void add_latent_attention(weight_plan& plan, const model::description& model,
                          const layer_slice& own, std::uint32_t index, layer_weights& layer) {
  const auto name = [&](std::string_view role) { return model::layer_tensor_name(index, role); };
  const auto& sizes = *model.latent;
  const auto rows_of = [&](std::uint64_t size) {
    return layer_slice::rows_of_heads(own.heads, size);
  };
  const extent queries = rows_of(sizes.query_size());
  auto& latent = layer.latent;
  if (sizes.query_rank > 0) {
    layer.query = plan.matrix(name("attn_q_a.weight"));
    latent.query_norm = plan.vector(name("attn_q_a_norm.weight"));
    latent.query = plan.matrix(name("attn_q_b.weight"), queries);
  } else {
    layer.query = plan.matrix(name("attn_q.weight"), queries);
  }
  layer.key = plan.matrix(name("attn_kv_a_mqa.weight"));
  latent.kv_norm = plan.vector(name("attn_kv_a_norm.weight"));
  const std::uint64_t joint_rows = sizes.plain_size + sizes.value_size;
  for (std::uint64_t head = own.heads.first; head < own.heads.end(); ++head)
    latent.onto_latents.push_back(
        sizes.has_joint_weights
            ? plan.transposed(name("attn_kv_b.weight"), {head * joint_rows, sizes.plain_size})
            : plan.matrix(name("attn_k_b.weight"), extent{head * sizes.kv_rank, sizes.kv_rank}));
  for (std::uint64_t head = own.heads.first; head < own.heads.end(); ++head)
    latent.values.push_back(
        sizes.has_joint_weights
            ? plan.matrix(name("attn_kv_b.weight"),
                          extent{head * joint_rows + sizes.plain_size, sizes.value_size})
            : plan.matrix(name("attn_v_b.weight"),
                          extent{head * sizes.value_size, sizes.value_size}));
  layer.attention_out = plan.matrix(name("attn_output.weight"), {}, rows_of(sizes.value_size));
}

// The tensors of a layer whose heads have states, for all kinds of heads.
void add_states(weight_plan& plan, const model::description& model, std::uint32_t index,
                layer_weights& layer) {
  const auto name = [&](std::string_view role) { return model::layer_tensor_name(index, role); };
  auto& r = layer.recurrent;
  r.convolution = plan.vector(name("ssm_conv1d.weight"), {}, vector_form::by_columns);
  r.decay_scale =
      plan.vector(name("ssm_a"), {},
                  model.recurrence->has_log_decay ? vector_form::decay : vector_form::stored);
  r.decay_bias = plan.vector(name("ssm_dt.bias"));
  r.norm = plan.vector(name("ssm_norm.weight"));
  layer.attention_out = plan.matrix(name("ssm_out.weight"));
}

void add_delta_net(weight_plan& plan, const model::description& model, std::uint32_t index,
                   layer_weights& layer) {
  const auto name = [&](std::string_view role) { return model::layer_tensor_name(index, role); };
  const auto& sizes = *model.recurrence;
  auto& r = layer.recurrent;
  if (sizes.has_joint_projection) {
    const std::uint64_t keys = sizes.key_head_count * std::uint64_t{sizes.key_size};
    const std::uint64_t key = sizes.key_size, values = sizes.values_size() / sizes.key_head_count;
    const std::uint64_t together = 2 * key + 2 * values; // rows of a key head
    const std::string in = name("ssm_in.weight");
    r.mixed = plan.joined(in, {extent{0, keys, key, together}, extent{key, keys, key, together},
                               extent{2 * key, sizes.values_size(), values, together}});
    r.gate = plan.matrix(in, extent{2 * key + values, sizes.values_size(), values, together});
  } else {
    r.mixed = plan.matrix(name("attn_qkv.weight"));
    r.gate = plan.matrix(name("attn_gate.weight"));
  }
  if (sizes.has_joint_weights) {
    const std::uint64_t together = sizes.value_head_count / sizes.key_head_count;
    const extent strengths{0, sizes.value_head_count, together, 2 * together};
    r.strength = plan.matrix(name("ssm_ba.weight"), strengths);
    r.decay = plan.matrix(name("ssm_ba.weight"), shifted(together, strengths));
  } else {
    r.strength = plan.matrix(name("ssm_beta.weight"));
    r.decay = plan.matrix(name("ssm_alpha.weight"));
  }
  add_states(plan, model, index, layer);
}

// One tensor has the rows of gates, channels and time steps.
void add_mamba2(weight_plan& plan, const model::description& model, std::uint32_t index,
                layer_weights& layer) {
  const auto name = [&](std::string_view role) { return model::layer_tensor_name(index, role); };
  const auto& sizes = *model.recurrence;
  auto& r = layer.recurrent;
  const std::uint64_t values = sizes.values_size(), channels = sizes.channels;
  r.gate = plan.matrix(name("ssm_in.weight"), extent{0, values});
  r.mixed = plan.matrix(name("ssm_in.weight"), extent{values, channels});
  r.decay = plan.matrix(name("ssm_in.weight"), extent{values + channels, sizes.value_head_count});
  r.convolution_bias = plan.vector(name("ssm_conv1d.bias"));
  r.skip = plan.vector(name("ssm_d"));
  add_states(plan, model, index, layer);
}

// One tensor has the rows of input gates, gates and channels.
void add_short_convolution(weight_plan& plan, const model::description& model, std::uint32_t index,
                           layer_weights& layer) {
  const auto name = [&](std::string_view role) { return model::layer_tensor_name(index, role); };
  const std::uint64_t channels = model.recurrence->channels;
  auto& r = layer.recurrent;
  r.input_gate = plan.matrix(name("shortconv.in_proj.weight"), extent{0, channels});
  r.gate = plan.matrix(name("shortconv.in_proj.weight"), extent{channels, channels});
  r.mixed = plan.matrix(name("shortconv.in_proj.weight"), extent{2 * channels, channels});
  r.convolution = plan.vector(name("shortconv.conv.weight"), {}, vector_form::by_columns);
  layer.attention_out = plan.matrix(name("shortconv.out_proj.weight"));
}

void add_mixer(weight_plan& plan, const model::description& model, const layer_slice& own,
               std::uint32_t index, layer_weights& layer) {
  switch (model.layers[index].mixer) {
  case model::mixer_kind::attention:
    return model.latent ? add_latent_attention(plan, model, own, index, layer)
                        : add_attention(plan, model, own, index, layer);
  case model::mixer_kind::delta_net:
    return add_delta_net(plan, model, index, layer);
  case model::mixer_kind::mamba2:
    return add_mamba2(plan, model, index, layer);
  case model::mixer_kind::short_convolution:
    return add_short_convolution(plan, model, index, layer);
  }
}

// Embeddings of each layer, and the scale of its output.
void add_end_of_layer(weight_plan& plan, const model::description& model, std::uint32_t index,
                      layer_weights& layer) {
  const auto name = [&](std::string_view role) { return model::layer_tensor_name(index, role); };
  if (model.layer_input_size > 0) {
    layer.input_gate = plan.matrix(name("inp_gate.weight"));
    layer.input_projection = plan.matrix(name("proj.weight"));
    layer.input_norm = plan.vector(name("post_norm.weight"));
  }
  if (model.has_layer_scales)
    layer.scale = plan.vector(name("layer_output_scale.weight"));
}

layer_weights add_layer(weight_plan& plan, const model::description& model, const layer_slice& own,
                        std::uint32_t index) {
  const auto name = [&](std::string_view role) { return model::layer_tensor_name(index, role); };
  const auto vector_if = [&](bool has, std::string_view role) {
    return has ? plan.vector(name(role)) : nullptr;
  };
  layer_weights layer;
  layer.attention_norm = vector_if(model.has_pre_norms, "attn_norm.weight");
  add_mixer(plan, model, own, index, layer);
  layer.post_attention_norm = vector_if(model.has_post_norms, "post_attention_norm.weight");
  layer.ffn_norm = vector_if(model.has_pre_norms && !model.has_parallel_ffn, model.ffn_norm_tensor);
  if (model.layers[index].is_mixture) {
    add_mixture(plan, model, own, index, layer);
  }
  if (!model.layers[index].is_mixture || model.has_ffn_beside_experts) {
    if (model.has_fused_ffn) {
      layer.ffn.gate = plan.matrix(name("ffn_up.weight"), own.dense);
      layer.ffn.up =
          plan.matrix(name("ffn_up.weight"), shifted(model.ffn_size_of(index), own.dense));
    } else {
      layer.ffn.gate = plan.matrix(name("ffn_gate.weight"), own.dense);
      layer.ffn.up = plan.matrix(name("ffn_up.weight"), own.dense);
    }
    layer.ffn.down = plan.matrix(name("ffn_down.weight"), {}, own.dense);
  }
  layer.post_ffn_norm = vector_if(model.has_post_norms, "post_ffw_norm.weight");
  add_end_of_layer(plan, model, index, layer);
  return layer;
}

// Rows of a matrix that start at a panel border.
packed_matrix rows_of(const packed_matrix& matrix, const extent& rows) {
  ENSURE(rows.first % panel_rows == 0, "a slice begins at row {}", rows.first);
  packed_matrix part{matrix.format, rows.count, matrix.columns, matrix.panels, matrix.table};
  if (matrix.panels != nullptr)
    part.panels = matrix.panel(rows.first / panel_rows);
  return part;
}

void add_weights(weight_plan& plan, const model::description& model,
                 const model::layer_range& range, const model::tensor_slice& slice,
                 stage_weights& out) {
  const extent vocabulary{slice.vocabulary.first, slice.vocabulary.count};
  const bool shares_embedding = range.has_embedding && range.has_head && model.has_tied_embeddings;
  out.rope_factors.clear();
  for (const auto& tensor : model::shared_tensors(model))
    out.rope_factors.emplace_back(
        tensor.name, std::span<const float>(plan.vector(tensor.name), tensor.shape.front()));
  out.layers.clear();
  for (std::uint32_t i = range.first; i < range.end(); ++i)
    out.layers.push_back(add_layer(plan, model, layer_slice(model, slice, i), i));
  if (range.has_head)
    out.output_norm = plan.vector(model.output_norm_tensor);
  if (range.has_head && !shares_embedding)
    out.head =
        plan.matrix(model.has_tied_embeddings ? "token_embd.weight" : "output.weight", vocabulary);
  if (range.has_embedding)
    out.embedding = plan.matrix("token_embd.weight");
  if (range.has_embedding && model.layer_input_size > 0) {
    out.layer_embedding = plan.matrix("per_layer_token_embd.weight");
    out.layer_projection = plan.matrix("per_layer_model_proj.weight");
    out.layer_projection_norm = plan.vector("per_layer_proj_norm.weight");
  }
  if (shares_embedding)
    out.head = rows_of(out.embedding, vocabulary);
}

} // namespace

std::span<const float> stage_weights::rope_factors_of(std::string_view tensor) const noexcept {
  for (const auto& [name, values] : rope_factors)
    if (name == tensor)
      return values;
  return {};
}

result<std::uint64_t> packed_bytes(const model::model_file& file, const model::description& model,
                                   const model::layer_range& range,
                                   const model::tensor_slice& slice) {
  stage_weights unused;
  weight_plan measured(file, layout_cursor{});
  add_weights(measured, model, range, slice, unused);
  if (measured.failure())
    return *measured.failure();
  return measured.size_bytes();
}

result<stage_weights> load_weights(const model::model_file& file, const model::description& model,
                                   const model::layer_range& range,
                                   const model::tensor_slice& slice, thread_team& team) {
  const auto size_bytes = packed_bytes(file, model, range, slice);
  if (!size_bytes)
    return size_bytes.error();
  auto memory = large_memory::take(*size_bytes);
  if (!memory)
    return memory.error();
  stage_weights weights;
  weights.memory = *std::move(memory);
  weight_plan plan(file, layout_cursor(weights.memory.data()));
  add_weights(plan, model, range, slice, weights);
  if (auto ok = fill_placements(file, plan.placements(), team); !ok)
    return ok.error();
  for (const auto& [tensor, values] : weights.rope_factors)
    if (auto ok = model::check_rope_factors(tensor, values); !ok)
      return ok.error();
  return weights;
}

} // namespace baton::cpu
