// Plans where every tensor goes, takes the memory, then reads and packs in parallel.
#include "runtime/cpu/weights.hpp"

#include "runtime/cpu/weight_block.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace baton::cpu {
namespace {

// Panels read and packed at a time: 0.1 to 1 MB of the file.
constexpr std::size_t panels_per_read = 8;

// Consecutive rows of a tensor.
struct row_range {
  std::uint64_t first = 0, count = 0;
};

// Rows of a tensor with their place: a matrix, or a vector of float32.
struct placement {
  const model::tensor_view* tensor = nullptr;
  row_range rows;
  std::byte* to = nullptr;
  bool is_vector = false;
};

class weight_plan {
public:
  weight_plan(const model::model_file& file, layout_cursor cursor) : file_(file), cursor_(cursor) {}

  // All rows, or those of one part of a fused tensor.
  packed_matrix matrix(const std::string& name, std::optional<row_range> part = {}) {
    const model::tensor_view* tensor = find(name);
    if (tensor == nullptr)
      return {};
    const auto format = panel_format_of(tensor->type);
    if (!format || tensor->columns() % block_columns != 0) {
      failure_ = fail(errc::unsupported_model,
                      "tensor '{}' ({}, rows of {}): the CPU engine needs {} and rows in multiples "
                      "of {}",
                      file_.spelled(name), model::tensor_type_traits(tensor->type).name,
                      tensor->columns(), model::supported_tensor_types(), block_columns);
      return {};
    }
    const row_range rows = part.value_or(row_range{0, tensor->rows()});
    packed_matrix m{*format, rows.count, tensor->columns(), nullptr};
    auto* to = cursor_.part<std::byte>(m.size_bytes());
    m.panels = to;
    places_.push_back({tensor, rows, to, false});
    return m;
  }

  const float* vector(const std::string& name) {
    const model::tensor_view* tensor = find(name);
    if (tensor == nullptr)
      return nullptr;
    auto* to = cursor_.part<float>(tensor->elements());
    places_.push_back({tensor, {0, tensor->rows()}, reinterpret_cast<std::byte*>(to), true});
    return to;
  }

  const std::vector<placement>& places() const noexcept { return places_; }
  const std::optional<error>& failure() const noexcept { return failure_; }
  std::size_t size_bytes() const noexcept { return cursor_.used_bytes(); }

private:
  const model::tensor_view* find(const std::string& name) {
    for (const auto& tensor : file_.tensors())
      if (tensor.name == name)
        return &tensor;
    failure_ = fail(errc::bad_model_file, "tensor '{}' is not in {}", file_.spelled(name),
                    file_.path().string());
    return nullptr;
  }

  const model::model_file& file_;
  layout_cursor cursor_;
  std::vector<placement> places_;
  std::optional<error> failure_;
};

// Consecutive parts of one matrix, from row 0 on.
void place_parts(weight_plan& plan, const std::string& name,
                 std::initializer_list<std::pair<packed_matrix*, std::uint64_t>> parts) {
  std::uint64_t first = 0;
  for (const auto& [matrix, rows] : parts) {
    *matrix = plan.matrix(name, row_range{first, rows});
    first += rows;
  }
}

// An expert's matrices one after the other: a step reads those of the experts in use only. Each is
// a run of rows of a tensor that holds those of all experts.
std::vector<ffn_weights> place_experts(weight_plan& plan, const model::description& model,
                                       std::uint32_t layer) {
  std::vector<ffn_weights> experts(model.expert_count);
  for (std::uint64_t e = 0; e < experts.size(); ++e) {
    const auto matrix = [&](std::string_view role, std::uint64_t rows) {
      return plan.matrix(model::layer_tensor_name(layer, role), row_range{e * rows, rows});
    };
    experts[e].gate = matrix("ffn_gate_exps.weight", model.expert_ffn_size);
    experts[e].up = matrix("ffn_up_exps.weight", model.expert_ffn_size);
    experts[e].down = matrix("ffn_down_exps.weight", model.hidden_size);
  }
  return experts;
}

layer_weights place_layer(weight_plan& plan, const model::description& model, std::uint32_t index) {
  const auto name = [&](std::string_view role) { return model::layer_tensor_name(index, role); };
  const auto vector_if = [&](bool has, std::string_view role) {
    return has ? plan.vector(name(role)) : nullptr;
  };
  layer_weights layer;
  layer.attention_norm = plan.vector(name("attn_norm.weight"));
  if (model.has_fused_projections) {
    place_parts(plan, name("attn_qkv.weight"),
                {{&layer.query, model.q_size()},
                 {&layer.key, model.kv_size()},
                 {&layer.value, model.kv_size()}});
  } else {
    layer.query = plan.matrix(name("attn_q.weight"));
    layer.key = plan.matrix(name("attn_k.weight"));
    layer.value = plan.matrix(name("attn_v.weight"));
  }
  layer.query_bias = vector_if(model.has_attention_bias, "attn_q.bias");
  layer.key_bias = vector_if(model.has_attention_bias, "attn_k.bias");
  layer.value_bias = vector_if(model.has_attention_bias, "attn_v.bias");
  layer.query_norm = vector_if(model.has_qk_norm, "attn_q_norm.weight");
  layer.key_norm = vector_if(model.has_qk_norm, "attn_k_norm.weight");
  layer.attention_out = plan.matrix(name("attn_output.weight"));
  layer.post_attention_norm = vector_if(model.has_post_norms, "post_attention_norm.weight");
  layer.ffn_norm = plan.vector(name("ffn_norm.weight"));
  if (model.expert_count > 0) {
    layer.router = plan.matrix(name("ffn_gate_inp.weight"));
    layer.experts = place_experts(plan, model, index);
  } else {
    if (model.has_fused_projections) {
      place_parts(plan, name("ffn_up.weight"),
                  {{&layer.ffn.gate, model.ffn_size}, {&layer.ffn.up, model.ffn_size}});
    } else {
      layer.ffn.gate = plan.matrix(name("ffn_gate.weight"));
      layer.ffn.up = plan.matrix(name("ffn_up.weight"));
    }
    layer.ffn.down = plan.matrix(name("ffn_down.weight"));
  }
  layer.post_ffn_norm = vector_if(model.has_post_norms, "post_ffw_norm.weight");
  return layer;
}

void place_weights(weight_plan& plan, const model::description& model,
                   const model::layer_range& range, stage_weights& out) {
  if (model.rope.has_factors)
    out.rope_factors = {plan.vector("rope_freqs.weight"), model.rope.dimension_count / 2};
  out.layers.clear();
  for (std::uint32_t i = range.first; i < range.end(); ++i)
    out.layers.push_back(place_layer(plan, model, i));
  if (range.heads) {
    out.output_norm = plan.vector("output_norm.weight");
    out.head = plan.matrix(model.has_tied_embeddings ? "token_embd.weight" : "output.weight");
  }
  if (range.embeds)
    out.embedding =
        range.heads && model.has_tied_embeddings ? out.head : plan.matrix("token_embd.weight");
}

result<void> read_vector(const model::model_file& file, const placement& place) {
  const auto& tensor = *place.tensor;
  std::vector<std::byte> raw(tensor.size_bytes());
  if (auto ok = file.copy_rows(tensor.name, 0, tensor.rows(), raw); !ok)
    return ok;
  model::dequantize_row(tensor.type, raw.data(), reinterpret_cast<float*>(place.to),
                        tensor.elements());
  return {};
}

// Every size-th group of panels, from member's on.
result<void> pack_share(const model::model_file& file, const placement& place, unsigned member,
                        unsigned members) {
  const auto& tensor = *place.tensor;
  const std::uint64_t rows = place.rows.count, row_bytes = tensor.row_bytes();
  const packed_matrix m{*panel_format_of(tensor.type), rows, tensor.columns(), place.to};
  std::vector<std::byte> raw;
  for (std::size_t p = member * panels_per_read; p < m.panel_count();
       p += members * panels_per_read) {
    const std::uint64_t first = p * panel_rows;
    const std::uint64_t count = std::min<std::uint64_t>(panels_per_read * panel_rows, rows - first);
    raw.resize(count * row_bytes);
    if (auto ok = file.copy_rows(tensor.name, place.rows.first + first, count, raw); !ok)
      return ok;
    for (std::uint64_t r = 0; r < count; r += panel_rows)
      pack_panel(tensor.type, raw.data() + r * row_bytes,
                 std::min<std::uint64_t>(panel_rows, count - r), row_bytes, m.columns,
                 place.to + (p + r / panel_rows) * m.panel_bytes());
  }
  return {};
}

result<void> fill(const model::model_file& file, const std::vector<placement>& places,
                  thread_team& team) {
  std::vector<result<void>> outcome(team.size());
  team.run([&](unsigned member) {
    for (std::size_t i = 0; i < places.size() && outcome[member]; ++i) {
      if (!places[i].is_vector)
        outcome[member] = pack_share(file, places[i], member, team.size());
      else if (i % team.size() == member)
        outcome[member] = read_vector(file, places[i]);
    }
  });
  for (auto& each : outcome)
    if (!each)
      return each;
  return {};
}

// A factor that is no positive number would turn every logit into NaN.
result<void> check_factors(std::span<const float> factors) {
  for (const float factor : factors)
    if (!std::isfinite(factor) || factor <= 0.0F)
      return fail(errc::bad_model_file, "tensor 'rope_freqs.weight' holds {}, not a factor",
                  factor);
  return {};
}

} // namespace

result<std::uint64_t> packed_bytes(const model::model_file& file, const model::description& model,
                                   const model::layer_range& range) {
  stage_weights unused;
  weight_plan measured(file, layout_cursor{});
  place_weights(measured, model, range, unused);
  if (measured.failure())
    return *measured.failure();
  return measured.size_bytes();
}

result<stage_weights> load_weights(const model::model_file& file, const model::description& model,
                                   const model::layer_range& range, thread_team& team) {
  const auto size_bytes = packed_bytes(file, model, range);
  if (!size_bytes)
    return size_bytes.error();
  auto memory = large_memory::take(*size_bytes);
  if (!memory)
    return memory.error();
  stage_weights weights;
  weights.memory = *std::move(memory);
  weight_plan plan(file, layout_cursor(weights.memory.data()));
  place_weights(plan, model, range, weights);
  if (auto ok = fill(file, plan.places(), team); !ok)
    return ok.error();
  if (auto ok = check_factors(weights.rope_factors); !ok)
    return ok.error();
  return weights;
}

} // namespace baton::cpu
