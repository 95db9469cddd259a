#include "runtime/plugin/weight_feed.hpp"

#include "runtime/model/rope.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

namespace baton::plugin {
namespace {

std::uint32_t bytes_of(element e) {
  return e == element::f32 ? 4 : 2;
}

// Whether the file's type equals the requested one bit for bit.
bool is_same(model::tensor_type type, element as) {
  using enum model::tensor_type;
  return (type == f32 && as == element::f32) || (type == f16 && as == element::f16) ||
         (type == bf16 && as == element::bf16);
}

void convert(const float* from, std::uint64_t count, element as, std::byte* out) {
  if (as == element::f32) {
    std::memcpy(out, from, count * sizeof(float));
    return;
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint16_t bits =
        as == element::f16 ? model::f32_to_f16(from[i]) : model::f32_to_bf16(from[i]);
    std::memcpy(out + i * sizeof bits, &bits, sizeof bits);
  }
}

// A feature that the interface has no words for, or an empty text.
std::string_view feature_beyond(const model::description& m) {
  if (m.has_choice_bias && m.router != model::router_kind::sigmoid)
    return "biases of the choice of experts without sigmoids";
  if (m.recurrence)
    return "recurrent layers";
  if (m.latent)
    return "latent attention";
  if (m.expert_group_count > 1)
    return "groups of experts";
  if (m.has_attention_gate)
    return "gates of attention";
  if (m.has_uneven_layers())
    return "layers of several sizes";
  if (m.has_value_norm)
    return "norms of values";
  if (m.has_layer_scales)
    return "scales of layers";
  if (m.has_ffn_beside_experts)
    return "an ffn beside its experts";
  if (m.has_fused_experts)
    return "experts whose gates and ups are one tensor";
  if (!m.uncut_feature().empty())
    return m.uncut_feature();
  return {};
}

} // namespace

result<weight_feed> weight_feed::open(const model::model_file& file,
                                      const model::description& model,
                                      const model::layer_range& range,
                                      const model::tensor_slice& slice,
                                      std::uint32_t max_model_len) {
  const auto group = model.head_count / model.kv_head_count;
  if (slice.heads != model::index_range{slice.kv_heads.first * group, slice.kv_heads.count * group})
    return fail_param(errc::invalid_value, "slices",
                      "'{}': a rank of an engine in a library has whole groups of heads, not heads "
                      "{} to {} of KV heads {} to {}",
                      model.name, slice.heads.first, slice.heads.end() - 1, slice.kv_heads.first,
                      slice.kv_heads.end() - 1);
  if (const auto feature = feature_beyond(model); !feature.empty())
    return fail(errc::unsupported_model,
                "'{}' has {}: the GPU engine does not run them yet, the CPU engine does",
                model.name, feature);
  weight_feed feed(file, model, range, slice);
  if (auto ok = feed.take_rotations(max_model_len); !ok)
    return ok.error();
  for (auto i = range.first; i < range.end(); ++i)
    feed.layers_.push_back({.window = model.layers[i].window,
                            .rotation = model.layers[i].rope.value_or(0),
                            .is_rotated = model.layers[i].rope.has_value(),
                            .grows_queries = model.layers[i].grows_queries,
                            .is_mixture = model.layers[i].is_mixture});
  if (auto ok = feed.check_tensors(); !ok)
    return ok.error();
  return feed;
}

result<std::vector<float>> weight_feed::read_factors(std::string_view name,
                                                     std::size_t pairs) const {
  const auto tensor = file_->find(name);
  if (!tensor)
    return fail(errc::bad_model_file, "tensor '{}' is not in {}", name, file_->path().string());
  std::vector<std::byte> raw(tensor->size_bytes());
  if (auto ok = file_->copy_rows(tensor->name, 0, tensor->rows(), raw); !ok)
    return ok.error();
  std::vector<float> factors(tensor->elements());
  model::dequantize_row(tensor->type, raw.data(), factors.data(), factors.size());
  factors.resize(pairs);
  if (auto ok = model::check_rope_factors(name, factors); !ok)
    return ok.error();
  return factors;
}

result<void> weight_feed::take_rotations(std::uint32_t max_model_len) {
  for (const auto& rope : model_.ropes) {
    const auto& first = model_.ropes.front();
    if (rope.kind != first.kind || rope.dimension_count != first.dimension_count)
      return fail(errc::unsupported_model,
                  "'{}': an engine in a library rotates all layers in the same dimensions",
                  model_.name);
    std::vector<float> factors;
    if (const auto name = model::rope_factors_name(rope, max_model_len); !name.empty()) {
      auto read = read_factors(name, rope.dimension_count / 2);
      if (!read)
        return read.error();
      factors = *std::move(read);
    }
    frequencies_.push_back(model::rope_frequencies(rope, factors));
    rotations_.push_back({frequencies_.back().data(), rope.magnitude}); // vectors keep their place
  }
  return {};
}

result<void> weight_feed::check_tensors() const {
  for (const auto& name : model::tensors_of(model_, range_))
    if (!file_->find(name))
      return fail(errc::bad_model_file, "tensor '{}' is not in {}", file_->original_name(name),
                  file_->path().string());
  return {};
}

plugin::decoder weight_feed::describe() const {
  plugin::decoder m;
  m.layer_count = range_.count;
  m.layers = layers_.data();
  m.hidden_size = own_.hidden_size;
  m.ffn_size = own_.ffn_size;
  m.head_count = own_.head_count;
  m.kv_head_count = own_.kv_head_count;
  m.head_size = own_.head_size;
  m.vocabulary_size = own_.vocab_size;
  m.logit_count = range_.has_head ? slice_.vocabulary.count : 0;
  m.first_logit = range_.has_head ? slice_.vocabulary.first : 0;
  m.embeds = range_.has_embedding;
  m.heads = range_.has_head;
  m.has_pre_norms = own_.has_pre_norms;
  m.has_parallel_ffn = own_.has_parallel_ffn;
  m.norms = own_.norm == model::norm_kind::rms ? norm_form::rms : norm_form::layer;
  m.head_norms = own_.qk_norm == model::qk_norm_kind::rotated_heads ? head_norm::behind_rotation
                 : own_.qk_norm == model::qk_norm_kind::rows        ? head_norm::whole_rows
                                                                    : head_norm::before_rotation;
  m.rms_epsilon = own_.rms_epsilon;
  m.act = own_.activation == model::activation_kind::silu   ? activation::silu
          : own_.activation == model::activation_kind::gelu ? activation::gelu_tanh
                                                            : activation::clamped_silu;
  if (!own_.ropes.empty()) {
    const auto& rope = own_.ropes.front(); // all rotate the same dimensions
    m.rotates = rope.kind == model::rope_kind::normal ? rotation::pairs : rotation::halves;
    m.rotated_dimensions = rope.dimension_count;
  }
  m.rotation_count = static_cast<std::uint32_t>(rotations_.size());
  m.rotations = rotations_.data();
  m.embedding_scale = own_.embedding_scale;
  m.residual_scale = own_.residual_scale;
  m.logit_scale = own_.logit_scale;
  m.attention_scale = own_.attention_scale;
  m.attention_soft_cap = own_.attention_soft_cap.value_or(0.0F);
  m.final_soft_cap = own_.final_soft_cap.value_or(0.0F);
  m.expert_count = own_.expert_count;
  m.expert_used_count = own_.expert_used_count;
  m.expert_ffn_size = own_.expert_ffn_size;
  m.normalises_experts = own_.has_normalised_experts;
  m.has_sinks = own_.has_sinks;
  m.growth_weight = own_.query_growth.weight;
  m.growth_offset = own_.query_growth.offset;
  m.growth_length = own_.query_growth.length;
  m.router =
      own_.router == model::router_kind::softmax ? router_form::softmax : router_form::sigmoid;
  m.expert_scale = own_.expert_scale;
  m.shared_ffn_size = own_.shared_ffn_size;
  return m;
}

std::optional<weight_feed::source> weight_feed::locate(const weight_name& name) const {
  const std::uint64_t hidden = model_.hidden_size;
  const bool is_of_layer = name.which != weight::embedding && name.which != weight::output_norm &&
                           name.which != weight::head;
  if (is_of_layer && name.layer >= range_.count)
    return std::nullopt;
  switch (name.which) {
  case weight::embedding:
    if (!range_.has_embedding)
      return std::nullopt;
    return source{"token_embd.weight", 0, 0, {model_.vocab_size, hidden}};
  case weight::output_norm:
    if (!range_.has_head)
      return std::nullopt;
    return source{"output_norm.weight", 0, 0, {1, hidden}};
  case weight::head:
    if (!range_.has_head)
      return std::nullopt;
    return source{model_.has_tied_embeddings ? "token_embd.weight" : "output.weight",
                  slice_.vocabulary.first,
                  0,
                  {slice_.vocabulary.count, hidden}};
  case weight::ffn_norm:
  case weight::gate:
  case weight::up:
  case weight::down:
  case weight::post_ffn_norm:
  case weight::router:
  case weight::choice_bias:
  case weight::shared_gate:
  case weight::shared_up:
  case weight::shared_down:
  case weight::shared_score:
  case weight::router_bias:
  case weight::gate_bias:
  case weight::up_bias:
  case weight::down_bias:
    return locate_ffn(name);
  default:
    return locate_attention(name);
  }
}

std::optional<weight_feed::source> weight_feed::locate_attention(const weight_name& name) const {
  const std::uint64_t hidden = model_.hidden_size, size = model_.head_size;
  const std::uint64_t query_at = slice_.heads.first * size, query = slice_.heads.count * size;
  const std::uint64_t kv_at = slice_.kv_heads.first * size, kv = slice_.kv_heads.count * size;
  const std::uint64_t keys = model_.q_size(), values = keys + model_.kv_size();
  const auto tensor = [&](std::string_view role) {
    return model::layer_tensor_name(range_.first + name.layer, role);
  };
  const auto fused = [&](std::string_view alone, std::uint64_t offset, std::uint64_t at,
                         std::uint64_t rows) -> std::optional<source> {
    if (model_.has_fused_qkv)
      return source{tensor("attn_qkv.weight"), offset + at, 0, {rows, hidden}};
    return source{tensor(alone), at, 0, {rows, hidden}};
  };
  // Columns of a single row, for this rank.
  const auto vector = [&](bool has, std::string_view role, std::uint64_t at,
                          std::uint64_t columns) -> std::optional<source> {
    if (!has)
      return std::nullopt;
    return source{tensor(role), 0, at, {1, columns}};
  };
  const bool has_norms = model_.qk_norm != model::qk_norm_kind::none;
  const bool are_whole = model_.qk_norm == model::qk_norm_kind::rows; // which no rank cuts
  switch (name.which) {
  case weight::attention_norm:
    return vector(model_.has_pre_norms, "attn_norm.weight", 0, hidden);
  case weight::query:
    return fused("attn_q.weight", 0, query_at, query);
  case weight::key:
    return fused("attn_k.weight", keys, kv_at, kv);
  case weight::value:
    return fused("attn_v.weight", values, kv_at, kv);
  case weight::query_bias:
    return vector(model_.has_attention_bias, "attn_q.bias", query_at, query);
  case weight::key_bias:
    return vector(model_.has_attention_bias, "attn_k.bias", kv_at, kv);
  case weight::value_bias:
    return vector(model_.has_attention_bias, "attn_v.bias", kv_at, kv);
  case weight::query_norm:
    return vector(has_norms, "attn_q_norm.weight", 0, are_whole ? query : size);
  case weight::key_norm:
    return vector(has_norms, "attn_k_norm.weight", 0, are_whole ? kv : size);
  case weight::attention_out:
    return source{tensor("attn_output.weight"), 0, query_at, {hidden, query}};
  case weight::attention_out_bias:
    return vector(model_.has_attention_out_bias, "attn_output.bias", 0, hidden);
  case weight::sinks:
    return vector(model_.has_sinks, "attn_sinks.weight", slice_.heads.first, slice_.heads.count);
  case weight::post_attention_norm:
    return vector(model_.has_post_norms, "post_attention_norm.weight", 0, hidden);
  default:
    return std::nullopt;
  }
}

std::optional<weight_feed::source> weight_feed::locate_ffn(const weight_name& name) const {
  const std::uint64_t hidden = model_.hidden_size;
  const bool is_mixture = model_.layers[range_.first + name.layer].is_mixture;
  const std::uint64_t whole = is_mixture ? model_.expert_ffn_size : model_.ffn_size;
  const auto rows = !is_mixture && model_.expert_count > 0 ? beside(model_.ffn_size) : slice_.ffn;
  const std::uint64_t at = rows.first, own = rows.count;
  const auto tensor = [&](std::string_view role) {
    return model::layer_tensor_name(range_.first + name.layer, role);
  };
  if (name.expert >= (is_mixture ? model_.expert_count : 1))
    return std::nullopt;
  // The rows of all experts are concatenated.
  const auto outputs = [&](std::string_view role, std::string_view of_experts,
                           std::uint64_t offset) -> std::optional<source> {
    if (is_mixture)
      return source{tensor(of_experts), name.expert * whole + at, 0, {own, hidden}};
    return source{tensor(role), offset + at, 0, {own, hidden}};
  };
  const bool is_fused = model_.has_fused_ffn;
  switch (name.which) {
  case weight::ffn_norm:
    if (!model_.has_pre_norms || model_.has_parallel_ffn)
      return std::nullopt;
    return source{tensor(model_.ffn_norm_tensor), 0, 0, {1, hidden}};
  case weight::post_ffn_norm:
    if (!model_.has_post_norms)
      return std::nullopt;
    return source{tensor("post_ffw_norm.weight"), 0, 0, {1, hidden}};
  case weight::gate:
    return outputs(is_fused ? "ffn_up.weight" : "ffn_gate.weight", "ffn_gate_exps.weight", 0);
  case weight::up:
    return outputs("ffn_up.weight", "ffn_up_exps.weight", is_fused ? whole : 0);
  case weight::down:
    if (is_mixture)
      return source{tensor("ffn_down_exps.weight"), name.expert * hidden, at, {hidden, own}};
    return source{tensor("ffn_down.weight"), 0, at, {hidden, own}};
  default:
    return is_mixture ? locate_beside_experts(name) : std::nullopt;
  }
}

// The router and the shared experts of a mixture.
std::optional<weight_feed::source>
weight_feed::locate_beside_experts(const weight_name& name) const {
  const std::uint64_t hidden = model_.hidden_size, experts = model_.expert_count;
  const auto tensor = [&](std::string_view role) {
    return model::layer_tensor_name(range_.first + name.layer, role);
  };
  if (name.which == weight::router)
    return source{tensor("ffn_gate_inp.weight"), 0, 0, {experts, hidden}};
  if (name.which == weight::choice_bias && model_.has_choice_bias)
    return source{tensor("exp_probs_b.bias"), 0, 0, {1, experts}};
  if (name.which == weight::router_bias && model_.has_router_bias)
    return source{tensor("ffn_gate_inp.bias"), 0, 0, {1, experts}};
  if (model_.has_expert_bias) // a row for each expert; a rank has some of its columns
    switch (name.which) {
    case weight::gate_bias:
      return source{tensor("ffn_gate_exps.bias"), 0, slice_.ffn.first, {experts, slice_.ffn.count}};
    case weight::up_bias:
      return source{tensor("ffn_up_exps.bias"), 0, slice_.ffn.first, {experts, slice_.ffn.count}};
    case weight::down_bias:
      if (slice_.rank != 0)
        return std::nullopt;
      return source{tensor("ffn_down_exps.bias"), 0, 0, {experts, hidden}};
    default:
      break;
    }
  if (model_.shared_ffn_size == 0)
    return std::nullopt;
  const auto rows = beside(model_.shared_ffn_size);
  switch (name.which) {
  case weight::shared_gate:
    return source{tensor("ffn_gate_shexp.weight"), rows.first, 0, {rows.count, hidden}};
  case weight::shared_up:
    return source{tensor("ffn_up_shexp.weight"), rows.first, 0, {rows.count, hidden}};
  case weight::shared_down:
    return source{tensor("ffn_down_shexp.weight"), 0, rows.first, {hidden, rows.count}};
  case weight::shared_score:
    if (!model_.has_shared_gate)
      return std::nullopt;
    return source{tensor("ffn_gate_inp_shexp.weight"), 0, 0, {1, hidden}};
  default:
    return std::nullopt;
  }
}

model::index_range weight_feed::beside(std::uint32_t size) const noexcept {
  return model::part_beside(slice_.ffn, model_.expert_ffn_size, size, model_.cuts.ffn);
}

std::optional<extent> weight_feed::find(const weight_name& name) const {
  const auto found = locate(name);
  return found ? std::optional(found->size) : std::nullopt;
}

result<void> weight_feed::read(const weight_name& name, std::uint64_t first, std::uint64_t count,
                               element as, std::byte* out) const {
  const auto from = locate(name);
  const auto tensor = from ? file_->find(from->tensor) : std::nullopt;
  if (!tensor)
    return fail(errc::not_found, "weight {} of layer {} is not in this model",
                static_cast<std::uint32_t>(name.which), name.layer);
  if (first > from->size.rows || count > from->size.rows - first)
    return fail(errc::invalid_value, "rows {} to {} of '{}', which has {}", first, first + count,
                tensor->name, from->size.rows);
  // A vector may be stored with extra dimensions of 1.
  const bool is_whole = from->size.rows == 1;
  const std::uint64_t row_bytes = is_whole ? tensor->size_bytes() : tensor->row_bytes();
  const std::uint64_t columns = is_whole ? tensor->elements() : tensor->columns();
  const std::uint64_t rows = is_whole ? tensor->rows() * count : count;
  const bool is_cut = from->size.columns != columns;
  if (is_same(tensor->type, as) && !is_cut) // read directly into `out`
    return file_->copy_rows(tensor->name, from->first_row + first, rows, {out, row_bytes * count});
  std::vector<std::byte> raw(row_bytes * count);
  if (auto ok = file_->copy_rows(tensor->name, from->first_row + first, rows, raw); !ok)
    return ok;
  const std::uint64_t out_bytes = from->size.columns * bytes_of(as);
  std::vector<float> values(is_same(tensor->type, as) ? 0 : columns);
  for (std::uint64_t r = 0; r < count; ++r) {
    if (values.empty()) {
      std::memcpy(out + r * out_bytes,
                  raw.data() + r * row_bytes + from->first_column * bytes_of(as), out_bytes);
      continue;
    }
    model::dequantize_row(tensor->type, raw.data() + r * row_bytes, values.data(), columns);
    convert(values.data() + from->first_column, from->size.columns, as, out + r * out_bytes);
  }
  return {};
}

} // namespace baton::plugin
