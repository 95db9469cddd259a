#include "runtime/cpu/forward/engine_checks.hpp"

#include "runtime/cpu/kernels/expert_choice.hpp"
#include "runtime/cpu/kernels/kernels.hpp"
#include "runtime/cpu/panels/panel_format.hpp"

namespace baton::cpu {
namespace {

// More cores than any machine has; larger values are typing errors.
constexpr std::uint32_t threads_limit = 1024;
// Rows per step, far above the size where larger steps stop getting faster.
constexpr std::uint32_t rows_limit = 1U << 16U;

} // namespace

result<void> check_settings(const config& c) {
  if (c.threads == 0 || c.threads > threads_limit)
    return fail_param(errc::invalid_value, "threads", "threads must be 1 to {}, not {}",
                      threads_limit, c.threads);
  if (!c.cpus.empty() && c.cpus.size() != c.threads)
    return fail_param(errc::invalid_value, "cpus", "{} cpus for {} threads", c.cpus.size(),
                      c.threads);
  if (c.rows_max == 0 || c.rows_max > rows_limit)
    return fail_param(errc::invalid_value, "rows_max", "rows_max must be 1 to {}, not {}",
                      rows_limit, c.rows_max);
  if (c.state_slots < 2)
    return fail_param(errc::invalid_value, "state_slots", "state_slots must be 2 or more, not {}",
                      c.state_slots);
  if (c.activation_bits != 8 && c.activation_bits != 16)
    return fail_param(errc::invalid_value, "activation_bits",
                      "activation_bits must be 8 or 16, not {}", c.activation_bits);
  if (c.forced_isa && !is_available(*c.forced_isa))
    return fail_param(errc::invalid_value, "isa", "this CPU cannot run {}", name_of(*c.forced_isa));
  return {};
}

result<std::vector<model::tensor_slice>> slices_of(const model::description& m, const config& c) {
  if (c.slices.empty() && c.rank == 0)
    return model::split(m, 1);
  const auto wrong = [&](std::string_view what) {
    return fail_param(errc::invalid_value, "slices", "'{}': {}", m.name, what);
  };
  if (c.rank >= c.slices.size())
    return wrong(fmt::format("rank {} of {} slices", c.rank, c.slices.size()));
  const auto whole = model::split(m, 1);
  if (!whole)
    return whole.error();
  using model::tensor_slice;
  for (const auto part : {&tensor_slice::heads, &tensor_slice::ffn, &tensor_slice::vocabulary}) {
    std::uint64_t next = 0;
    for (const auto& slice : c.slices) {
      if ((slice.*part).first != next || (slice.*part).count == 0)
        return wrong("the slices do not follow one another");
      next += (slice.*part).count;
    }
    if (next != (whole->front().*part).count)
      return wrong("the slices are not of this model");
  }
  for (const auto& slice : c.slices) {
    if (slice.vocabulary.first % panel_rows != 0)
      return wrong("a slice of the head begins inside a panel");
    if (slice.kv_heads != model::kv_heads_of(m, slice.heads))
      return wrong("a slice's KV heads do not match its heads");
  }
  return c.slices;
}

result<void> check_model(const model::description& m) {
  const auto refuse = [&](std::string_view what) {
    return fail(errc::unsupported_model, "'{}': the CPU engine does not run {}", m.name, what);
  };
  if (m.has_parallel_ffn && m.expert_count != 0)
    return refuse("experts beside attention");
  if (m.qk_norm == model::qk_norm_kind::rows && m.has_attention_bias)
    return refuse("biases before norms of whole rows");
  if (m.expert_group_count > 1 && m.router == model::router_kind::sigmoid && !m.has_choice_bias)
    return refuse("groups of experts with sigmoids and without biases of the choice");
  if (m.expert_group_count > expert_groups_max)
    return refuse(fmt::format("more than {} groups of experts", expert_groups_max));
  for (std::uint32_t layer = 0; layer < m.layer_count; ++layer) {
    const auto size = m.heads_of(layer).size;
    if (size % 16 != 0 || size > head_size_max)
      return refuse(fmt::format("head sizes other than multiples of 16 up to {}", head_size_max));
    const auto rope = layer < m.layers.size() ? m.layers[layer].rope : std::nullopt;
    if (rope && (m.ropes[*rope].dimension_count > size || m.ropes[*rope].dimension_count % 2 != 0))
      return refuse("this number of rotated dimensions");
  }
  if (m.qk_norm == model::qk_norm_kind::rows && m.has_uneven_layers())
    return refuse("norms of whole rows in layers of several sizes");
  // Every layer's keys fit into the room of the largest ones, in every format of the KV cache.
  for (std::uint32_t layer = 0; layer < m.layer_count && m.has_uneven_layers(); ++layer)
    if (m.heads_of(layer).size % kv_scale_dimensions != 0)
      return refuse("layers of several sizes with heads that are no multiple of 32");
  if (m.has_ffn_beside_experts && (m.shared_ffn_size > 0 || !m.has_post_norms))
    return refuse("shared experts, or no post norms, with an ffn beside experts");
  if (m.layer_input_size % block_columns != 0)
    return refuse("embeddings of each layer that are no multiple of 32");
  if (const auto& l = m.latent) {
    if (l->plain_size % block_columns != 0 || l->kv_rank % block_columns != 0 ||
        l->value_size % block_columns != 0 || l->query_rank % block_columns != 0 ||
        l->rotated_size % 16 != 0 || l->kv_rank < l->rotated_size)
      return refuse("latent attention with ranks or parts of heads that are no multiple of 32, or "
                    "rotated parts that are no multiple of 16");
    if (m.has_parallel_ffn || m.has_attention_gate || m.has_attention_bias || m.has_sinks ||
        m.qk_norm != model::qk_norm_kind::none || m.has_uneven_layers())
      return refuse("latent attention with biases, gates, sinks, norms of heads, layers of several "
                    "sizes or an ffn beside it");
  }
  if (m.recurrence && m.recurrence->has_joint_projection &&
      m.recurrence->key_head_count * m.recurrence->key_size % panel_rows != 0)
    return refuse("joint projections of key heads that are no multiple of 32 together");
  if (const auto& r = m.recurrence) {
    if (m.has_parallel_ffn)
      return refuse("recurrent layers beside an ffn");
    if (r->channels % block_columns != 0 || r->output_size % block_columns != 0 ||
        r->norm_size % 16 != 0 || r->key_size % 16 != 0 || r->value_size % scan_columns != 0)
      return refuse("recurrent layers with key heads that are no multiple of 16, or value heads or "
                    "channels that are no multiple of 32");
  }
  return {};
}

} // namespace baton::cpu
