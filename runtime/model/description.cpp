#include "runtime/model/describe_parts.hpp"
#include "runtime/model/family.hpp"
#include "runtime/model/part_name.hpp"
#include "runtime/model/slice.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

namespace baton::model {
namespace {

// Names from the specification's list of general.file_type; a checkpoint may have its own.
std::string file_type_label(const model_file& file) {
  constexpr std::array<std::pair<std::uint32_t, std::string_view>, 33> labels = {{
      {0, "F32"},      {1, "F16"},      {2, "Q4_0"},    {3, "Q4_1"},    {7, "Q8_0"},
      {8, "Q5_0"},     {9, "Q5_1"},     {10, "Q2_K"},   {11, "Q3_K_S"}, {12, "Q3_K_M"},
      {13, "Q3_K_L"},  {14, "Q4_K_S"},  {15, "Q4_K_M"}, {16, "Q5_K_S"}, {17, "Q5_K_M"},
      {18, "Q6_K"},    {19, "IQ2_XXS"}, {20, "IQ2_XS"}, {21, "Q2_K_S"}, {22, "IQ3_XS"},
      {23, "IQ3_XXS"}, {24, "IQ1_S"},   {25, "IQ4_NL"}, {26, "IQ3_S"},  {27, "IQ3_M"},
      {28, "IQ2_S"},   {29, "IQ2_M"},   {30, "IQ4_XS"}, {31, "IQ1_M"},  {32, "BF16"},
      {36, "TQ1_0"},   {37, "TQ2_0"},   {38, "MXFP4"},
  }};
  if (auto own = file.get_string("general.file_type")) {
    return *std::move(own);
  }
  const auto number = file.get_u32("general.file_type");
  const auto* label =
      number ? std::ranges::find(labels, *number, [](const auto& row) { return row.first; })
             : labels.end();
  return std::string(label != labels.end() ? label->second : "unknown");
}

void take_family(const family& kind, description& d) {
  d.norm = kind.norm;
  d.ropes = {{.kind = kind.rope}};
  d.activation = kind.activation;
  d.qk_norm = kind.qk_norm;
  d.has_attention_bias = kind.has_attention_bias;
  d.has_attention_out_bias = kind.has_attention_out_bias;
  d.has_sinks = kind.has_sinks;
  d.has_attention_gate = kind.has_attention_gate;
  d.has_fused_qkv = kind.has_fused_qkv;
  d.has_fused_ffn = kind.has_fused_ffn;
  d.has_pre_norms = kind.has_pre_norms;
  d.has_post_norms = kind.has_post_norms;
  d.has_parallel_ffn = kind.has_parallel_ffn;
  d.has_layer_scales = kind.has_layer_scales;
  d.has_value_norm = kind.has_value_norm;
  d.ffn_norm_tensor = kind.ffn_norm_tensor;
  d.output_norm_tensor = kind.output_norm_tensor;
}

// A number, or one for each layer: the same in all layers, but 0 for recurrent ones. Families that
// take other numbers read them again in read_layer_sizes().
result<void> read_kv_heads(const model_file& file, const family& kind, description& d) {
  const auto name = d.architecture + ".attention.head_count_kv";
  if (!file.array_size(name)) {
    size_reader sizes(file, d.architecture);
    sizes.read(d.kv_head_count, "attention.head_count_kv", width_max, d.head_count);
    return sizes.first_error() ? result<void>(*sizes.first_error()) : result<void>();
  }
  const auto list = file.get_u32s(name);
  if (!list) {
    return list.error();
  }
  const bool may_lack_heads = kind.recurrent != mixer_kind::attention;
  const auto most = list->empty() ? 0U : *std::ranges::max_element(*list);
  const bool is_uniform =
      most != 0 && most <= width_max && std::ranges::all_of(*list, [&](std::uint32_t count) {
        return count == most || (may_lack_heads && count == 0) ||
               (kind.takes_windowed_sizes && count != 0);
      });
  if (!is_uniform) {
    return fail(errc::unsupported_model,
                "metadata key '{}' is [{}]: this build runs one number for all layers",
                file.original_name(name), fmt::join(*list, ", "));
  }
  d.kv_head_count = most;
  return {};
}

// Layers that guess further tokens (nextn) come last, and are counted by GGUF.
result<void> leave_out_later_layers(const model_file& file, description& d) {
  constexpr std::uint32_t extra_max = 8;
  const auto extra = file.get_u32(d.architecture + ".nextn_predict_layers", 0);
  if (!extra) {
    return extra.error();
  }
  if (*extra >= d.layer_count || *extra > extra_max) {
    return fail(errc::bad_model_file, "metadata key '{}' is {}: the model has {} layers",
                file.original_name(d.architecture + ".nextn_predict_layers"), *extra,
                d.layer_count);
  }
  d.layer_count -= *extra;
  return {};
}

result<void> read_sizes(const model_file& file, const family& kind, description& d) {
  size_reader sizes(file, d.architecture);
  sizes.read(d.layer_count, "block_count", layer_count_max);
  sizes.read(d.hidden_size, "embedding_length", width_max);
  // Some mixtures without dense layers have the width of their experts alone.
  const auto of_expert = file.get_u32(d.architecture + ".expert_feed_forward_length", 0);
  if (kind.takes_windowed_sizes && file.array_size(d.architecture + ".feed_forward_length")) {
    const auto list = read_sizes_of_layers(file, d, "feed_forward_length", {});
    if (!list) {
      return list.error();
    }
    d.ffn_size = list->front();
  } else {
    sizes.read(d.ffn_size, "feed_forward_length", width_max,
               of_expert && *of_expert != 0 ? std::optional(*of_expert) : std::nullopt);
  }
  sizes.read(d.head_count, "attention.head_count", width_max);
  sizes.read(d.context_length, "context_length", context_length_max);
  sizes.read(d.rms_epsilon, d.norm == norm_kind::rms ? "attention.layer_norm_rms_epsilon"
                                                     : "attention.layer_norm_epsilon");
  sizes.read(d.ropes.front().base, "rope.freq_base", 10000.0F); // the specification's default
  if (sizes.first_error()) {
    return *sizes.first_error();
  }
  if (auto r = leave_out_later_layers(file, d); !r) {
    return r;
  }
  if (auto r = read_kv_heads(file, kind, d); !r) {
    return r;
  }
  if (kind.has_latent_attention) {
    return read_latent(file, d);
  }
  if (d.hidden_size % d.head_count != 0 && !file.has(d.architecture + ".attention.key_length")) {
    return fail(errc::bad_model_file, "a hidden size of {} does not divide into {} heads",
                d.hidden_size, d.head_count);
  }
  sizes.read(d.head_size, "attention.key_length", width_max,
             std::max(1U, d.hidden_size / d.head_count));
  std::uint32_t value_size = 0;
  sizes.read(value_size, "attention.value_length", width_max, d.head_size);
  sizes.read(d.ropes.front().dimension_count, "rope.dimension_count", width_max, d.head_size);
  if (sizes.first_error()) {
    return *sizes.first_error();
  }
  if (d.kv_head_count > d.head_count || d.head_count % d.kv_head_count != 0) {
    return fail(errc::bad_model_file, "{} attention heads cannot share {} KV heads", d.head_count,
                d.kv_head_count);
  }
  if (std::uint64_t{d.head_count} * d.head_size > width_max) {
    return fail(errc::bad_model_file, "{} heads of size {} exceed the width limit of {}",
                d.head_count, d.head_size, width_max);
  }
  if (value_size != d.head_size) {
    return fail(errc::unsupported_model, "{}.attention.value_length is {}, the key length {}",
                d.architecture, value_size, d.head_size);
  }
  const auto rotated = d.ropes.front().dimension_count;
  if (rotated > d.head_size || rotated % 2 != 0) {
    return fail(errc::bad_model_file, "{}.rope.dimension_count is {}: odd, or above a head of {}",
                d.architecture, rotated, d.head_size);
  }
  if (kind.scales_embedding) {
    d.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(d.hidden_size)));
  }
  return {};
}

// The embedding's number of rows is the vocabulary's size; other sources must agree.
result<void> read_vocab(const model_file& file, const family&, description& d) {
  const auto embedding = file.find("token_embd.weight");
  if (!embedding) {
    return fail(errc::bad_model_file, "tensor '{}' is missing",
                file.original_name("token_embd.weight"));
  }
  const auto rows = embedding->rows();
  if (embedding->shape.size() != 2 || rows > vocab_size_max) {
    return fail(errc::bad_model_file, "tensor '{}': found [{}], expected [{}, up to {}]",
                file.original_name("token_embd.weight"), fmt::join(embedding->shape, ", "),
                d.hidden_size, vocab_size_max);
  }
  d.vocab_size = static_cast<std::uint32_t>(rows);
  const auto stated = file.get_u32(d.architecture + ".vocab_size", d.vocab_size);
  if (!stated) {
    return stated.error();
  }
  const auto tokens = file.array_size("tokenizer.ggml.tokens").value_or(d.vocab_size);
  if (*stated != d.vocab_size || tokens != d.vocab_size) {
    return fail(errc::bad_model_file, "{} has {} rows, but {} is {} and the vocabulary has {}",
                file.original_name("token_embd.weight"), d.vocab_size,
                file.original_name(d.architecture + ".vocab_size"), *stated, tokens);
  }
  return {};
}

result<std::uint64_t> check_tensor(const model_file& file, const tensor_requirement& wanted) {
  const auto found = file.find(wanted.name);
  if (!found) {
    return fail(errc::bad_model_file, "tensor '{}' is missing, expected [{}]",
                file.original_name(wanted.name), fmt::join(wanted.shape, ", "));
  }
  const bool fits =
      wanted.is_list ? found->elements() == wanted.shape.front() : found->shape == wanted.shape;
  if (!fits) {
    return fail(errc::bad_model_file, "tensor '{}': expected [{}], found [{}]",
                file.original_name(wanted.name), fmt::join(wanted.shape, ", "),
                fmt::join(found->shape, ", "));
  }
  const auto& traits = tensor_type_traits(found->type);
  if (!traits.is_supported) {
    return fail(errc::unsupported_model, "tensor '{}' is {}: this build reads {}",
                file.original_name(wanted.name), traits.name, supported_tensor_types());
  }
  return found->size_bytes();
}

// Checks a group of tensors, adds their names to `seen` and returns their size in bytes.
result<std::uint64_t> check_tensors(const model_file& file,
                                    const std::vector<tensor_requirement>& group,
                                    std::set<std::string, std::less<>>& seen) {
  std::uint64_t total = 0;
  for (const auto& wanted : group) {
    const auto bytes = check_tensor(file, wanted);
    if (!bytes) {
      return bytes.error();
    }
    total += *bytes; // about the file's size at most: tensors do not overlap
    seen.insert(wanted.name);
  }
  return total;
}

// Whether a tensor belongs to the layers behind the model's own, which guess further tokens.
bool is_of_later_layer(std::string_view name, const model_file& file, const description& d) {
  const auto extra = file.get_u32(d.architecture + ".nextn_predict_layers", 0);
  if (!extra || *extra == 0 || !name.starts_with("blk.")) {
    return false;
  }
  for (std::uint32_t i = 0; i < *extra; ++i) {
    if (name.starts_with(layer_tensor_name(d.layer_count + i, ""))) {
      return true;
    }
  }
  return false;
}

// Whether a tensor that no layer requires may be left out. A layer that reads the keys and values
// of another one may have its own. Latent attention may have joint weights beside their two parts.
bool is_replaced(std::string_view name, const description& d) {
  for (std::uint32_t i = 0; i < d.layer_count; ++i) {
    if (d.latent && name == layer_tensor_name(i, "attn_kv_b.weight")) {
      return true;
    }
    for (const auto* role : {"attn_k.weight", "attn_v.weight", "attn_k_norm.weight"}) {
      if (d.layers[i].kv_layer && name == layer_tensor_name(i, role)) {
        return true;
      }
    }
  }
  return false;
}

result<void> read_tensors(const model_file& file, const family& kind, description& d) {
  d.has_tied_embeddings = !file.find("output.weight");
  const auto has = [&](std::string_view role) {
    return file.find(layer_tensor_name(0, role)).has_value();
  };
  if (kind.takes_qk_norm && has("attn_q_norm.weight")) {
    d.qk_norm = qk_norm_kind::heads;
  }
  d.has_attention_bias =
      kind.has_attention_bias || (kind.takes_attention_bias && has("attn_q.bias"));
  d.has_fused_experts = has("ffn_gate_up_exps.weight");
  d.ropes.front().has_factors = kind.takes_rope_factors && file.find("rope_freqs.weight");
  std::set<std::string, std::less<>> seen;
  const auto input = check_tensors(file, input_tensors(d), seen);
  if (!input) {
    return input.error();
  }
  d.embedding_bytes = *input;
  // A few hundred bytes: not in any layer's sum, but in stage_bytes().
  if (const auto shared = check_tensors(file, shared_tensors(d), seen); !shared) {
    return shared.error();
  }
  for (std::uint32_t layer = 0; layer < d.layer_count; ++layer) {
    const auto bytes = check_tensors(file, layer_tensors(d, layer), seen);
    if (!bytes) {
      return bytes.error();
    }
    d.layer_bytes.push_back(*bytes);
  }
  const auto output = check_tensors(file, output_tensors(d), seen);
  if (!output) {
    return output.error();
  }
  auto cuts = slice_blocks_of(d, file);
  if (!cuts) {
    return cuts.error();
  }
  d.cuts = *cuts;
  d.output_norm_bytes = file.find(d.output_norm_tensor)->size_bytes();
  d.head_bytes = *output - d.output_norm_bytes;
  for (const auto& tensor : file.tensors()) {
    if (!seen.contains(tensor.name)) {
      if (is_of_later_layer(tensor.name, file, d) || is_replaced(tensor.name, d)) {
        continue;
      }
      return fail(errc::unsupported_model,
                  "tensor '{}' [{}] has no place in architecture '{}' as this build knows it",
                  file.original_name(tensor.name), fmt::join(tensor.shape, ", "), d.architecture);
    }
    d.parameter_count += tensor.elements();
    d.type_bytes[tensor.type] += tensor.size_bytes();
    d.expert_bytes += tensor.name.ends_with("_exps.weight") ? tensor.size_bytes() : 0;
  }
  return {};
}

} // namespace

bool description::is_mixed() const noexcept {
  const auto is_mixture = [](const layer_description& layer) { return layer.is_mixture; };
  return std::ranges::any_of(layers, is_mixture) &&
         (has_ffn_beside_experts || !std::ranges::all_of(layers, is_mixture));
}

std::uint32_t description::recurrent_layers(std::uint32_t first, std::uint32_t end) const noexcept {
  std::uint32_t count = 0;
  for (std::size_t i = first; i < std::min<std::size_t>(end, layers.size()); ++i) {
    count += layers[i].mixer != mixer_kind::attention ? 1 : 0;
  }
  return count;
}

std::uint64_t description::state_bytes(std::uint32_t first, std::uint32_t end) const noexcept {
  return recurrence ? recurrent_layers(first, end) * recurrence->state_bytes() : 0;
}

std::uint64_t description::step_bytes() const noexcept {
  const std::uint64_t unused =
      expert_count == 0 ? 0 : expert_bytes / expert_count * (expert_count - expert_used_count);
  return std::accumulate(layer_bytes.begin(), layer_bytes.end(), head_bytes) + output_norm_bytes -
         unused;
}

result<description> describe(const model_file& file) {
  auto architecture = file.get_string("general.architecture");
  if (!architecture) {
    return architecture.error();
  }
  const auto kind = family_of(*architecture);
  if (!kind) {
    return kind.error();
  }
  const std::filesystem::path own_name = without_part_number(file.path().filename().string());
  auto name = file.get_string("general.name", own_name.stem().string());
  if (!name) {
    return name.error();
  }
  description d;
  d.architecture = *std::move(architecture);
  d.name = *std::move(name);
  d.file_type = file_type_label(file);
  take_family(*kind, d);
  if (file.rotates_halves()) {
    d.ropes.front().kind = rope_kind::neox;
  }
  if (auto r = check_keys(file, *kind); !r) {
    return r.error();
  }
  for (auto* step : {read_sizes, read_experts, read_rope, read_attention, read_recurrence,
                     read_layers, read_layer_sizes, read_vocab, read_tensors}) {
    if (auto r = step(file, *kind, d); !r) {
      return r.error();
    }
  }
  return d;
}

} // namespace baton::model
