// Places the step buffers in one allocation.
#include "runtime/cpu/memory/step_memory.hpp"

#include <algorithm>

namespace baton::cpu {
namespace {

std::size_t padded(std::size_t columns) {
  return (columns + panel_rows - 1) / panel_rows * panel_rows;
}

// Cuts buffers of `rows` rows off the allocation.
class buffer_cutter {
public:
  buffer_cutter(layout_cursor& cursor, std::size_t rows, activation_width width)
      : cursor_(cursor), rows_(rows), width_(width) {}

  float_rows floats_of(std::size_t count, std::size_t columns) {
    return {cursor_.part<float>(count * padded(columns)), padded(columns)};
  }
  input_rows input_of(std::size_t count, std::size_t columns) {
    const std::size_t stride =
        (columns / block_columns * activation_block_bytes(width_) + 63) / 64 * 64;
    return {floats_of(count, columns), cursor_.part<std::byte>(count * stride), stride};
  }
  float_rows floats(std::size_t columns) { return floats_of(rows_, columns); }
  input_rows input(std::size_t columns) { return input_of(rows_, columns); }
  template <class T>
  T* part(std::size_t count) {
    return cursor_.part<T>(count);
  }

private:
  layout_cursor& cursor_;
  std::size_t rows_;
  activation_width width_;
};

// The columns of what mixes rows: attention, or a recurrence.
std::size_t mixed_max(const model::description& model) {
  return std::max<std::size_t>(model.q_size_max(),
                               model.recurrence ? model.recurrence->output_size : 0);
}

void assign_attention(step_memory& m, buffer_cutter& cut, const model::description& model) {
  const auto widest = model.largest_heads();
  m.query = cut.floats(model.q_size_max());
  m.key = cut.floats(std::size_t{widest.kv_count} * widest.size);
  m.value = cut.floats(std::size_t{widest.kv_count} * widest.size);
  if (model.has_value_norm)
    m.value_gain = cut.part<float>(head_size_max);
  m.attended = cut.input(mixed_max(model));
  if (model.has_attention_gate)
    m.attention_gate = cut.floats(model.q_size_max());
}

void assign_latent(step_memory& m, buffer_cutter& cut, const model::description& model) {
  const auto& sizes = *model.latent;
  const std::size_t heads = model.head_count;
  if (sizes.query_rank > 0)
    m.latent.query = cut.input(sizes.query_rank);
  m.latent.heads = cut.input(heads * sizes.query_size());
  m.latent.values = cut.input(heads * sizes.value_size);
}

void assign_recurrence(step_memory& m, buffer_cutter& cut,
                       const model::recurrence_description& sizes) {
  m.recurrence.mixed = cut.floats(sizes.channels);
  m.recurrence.convolved = cut.floats(sizes.channels);
  m.recurrence.gate = cut.floats(sizes.output_size);
  if (sizes.kind == model::mixer_kind::short_convolution) {
    m.recurrence.input_gate = cut.floats(sizes.channels);
  } else {
    m.recurrence.strength = cut.floats(sizes.value_head_count);
    m.recurrence.decay = cut.floats(sizes.value_head_count);
    m.recurrence.query_gain = cut.part<float>(sizes.key_size);
    m.recurrence.key_gain = cut.part<float>(sizes.key_size);
  }
}

// `slots`: rows times the experts of each.
void assign_ffn(step_memory& m, buffer_cutter& cut, const model::description& model,
                std::size_t slots) {
  if (model.has_ffn_beside_experts)
    m.beside = cut.floats(model.hidden_size);
  if (slots > 0) {
    m.experts.scores = cut.floats(model.expert_count);
    m.experts.choices = cut.part<expert_choice>(slots);
    m.experts.gathered = cut.input_of(slots, model.hidden_size);
    m.experts.gated = cut.input_of(slots, model.expert_ffn_size);
  }
  if (slots > 0 && model.shared_ffn_size > 0) {
    m.experts.shared = cut.input(model.shared_ffn_size);
    m.experts.shared_score = cut.floats(1);
  }
  if (slots == 0 || model.is_mixed())
    m.gated = cut.input(model.ffn_size_max());
}

void assign_threads(step_memory& m, buffer_cutter& cut, const model::description& model,
                    std::size_t slots) {
  const std::size_t mixed =
      model.latent ? std::max({model.head_count * model.latent->value_size, model.latent->kv_rank,
                               model.latent->query_rank, model.latent->plain_size})
                   : mixed_max(model);
  const std::size_t columns_max =
      std::max<std::size_t>({model.hidden_size, mixed, model.ffn_size_max(), model.expert_ffn_size,
                             model.shared_ffn_size, model.layer_input_size});
  const std::size_t arranged = matmul_scratch_bytes(columns_max / block_columns);
  for (auto& each : m.per_thread) {
    each = {.gate = cut.floats_of(rows_together, panels_together * panel_rows),
            .up = cut.floats_of(rows_together, panels_together * panel_rows),
            .arranged = cut.part<std::byte>(arranged)};
    if (model.layer_input_size > 0)
      each.layer_row = cut.part<float>(std::size_t{model.layer_input_size} * model.layer_count);
    if (slots > 0) {
      each.first_slot = cut.part<std::uint32_t>(model.expert_count + 2);
      each.slots = cut.part<expert_slot>(slots);
      each.ranked = cut.part<float>(model.expert_count);
    }
  }
}

void assign_buffers(step_memory& m, layout_cursor& cursor, const model::description& model,
                    std::size_t logits, std::size_t rows, activation_width width) {
  buffer_cutter cut(cursor, rows, width);
  const std::size_t slots = rows * model.expert_used_count;
  m.hidden = cut.floats(model.hidden_size);
  m.normed = cut.input(model.hidden_size);
  assign_attention(m, cut, model);
  if (model.layer_input_size > 0) {
    m.layer_inputs = cut.floats(std::size_t{model.layer_input_size} * model.layer_count);
    m.layer_gated = cut.input(model.layer_input_size);
  }
  if (model.latent)
    assign_latent(m, cut, model);
  if (model.recurrence)
    assign_recurrence(m, cut, *model.recurrence);
  assign_ffn(m, cut, model, slots);
  assign_threads(m, cut, model, slots);
  m.logits = logits > 0 ? cut.floats(logits) : float_rows{};
}

} // namespace

result<step_memory> step_memory::take(const model::description& model, std::size_t logits,
                                      std::size_t rows_max, unsigned threads,
                                      activation_width width) {
  step_memory m;
  m.per_thread.resize(threads);
  layout_cursor measure;
  assign_buffers(m, measure, model, logits, rows_max, width);
  auto memory = large_memory::take(measure.used_bytes());
  if (!memory)
    return memory.error();
  m.memory = *std::move(memory);
  layout_cursor cursor(m.memory.data());
  assign_buffers(m, cursor, model, logits, rows_max, width);
  return m;
}

} // namespace baton::cpu
