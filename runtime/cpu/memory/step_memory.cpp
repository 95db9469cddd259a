// Places the step buffers in one allocation.
#include "runtime/cpu/memory/step_memory.hpp"

#include <algorithm>

namespace baton::cpu {
namespace {

std::size_t padded(std::size_t columns) {
  return (columns + panel_rows - 1) / panel_rows * panel_rows;
}

void assign_buffers(step_memory& m, layout_cursor& cursor, const model::description& model,
                    std::size_t logits, std::size_t rows, activation_width width) {
  const auto floats_of = [&](std::size_t count, std::size_t columns) {
    return float_rows{cursor.part<float>(count * padded(columns)), padded(columns)};
  };
  const auto input_of = [&](std::size_t count, std::size_t columns) {
    const std::size_t stride =
        (columns / block_columns * activation_block_bytes(width) + 63) / 64 * 64;
    return input_rows{floats_of(count, columns), cursor.part<std::byte>(count * stride), stride};
  };
  const auto floats = [&](std::size_t columns) { return floats_of(rows, columns); };
  const auto input = [&](std::size_t columns) { return input_of(rows, columns); };
  m.hidden = floats(model.hidden_size);
  m.normed = input(model.hidden_size);
  const auto widest = model.largest_heads();
  m.query = floats(model.q_size_max());
  m.key = floats(std::size_t{widest.kv_count} * widest.size);
  m.value = floats(std::size_t{widest.kv_count} * widest.size);
  if (model.has_value_norm)
    m.value_gain = cursor.part<float>(head_size_max);
  if (model.has_ffn_beside_experts)
    m.beside = floats(model.hidden_size);
  if (model.layer_input_size > 0) {
    m.layer_inputs = floats(std::size_t{model.layer_input_size} * model.layer_count);
    m.layer_gated = input(model.layer_input_size);
  }
  const auto& recurrence = model.recurrence;
  const std::size_t mixed_max =
      std::max<std::size_t>(model.q_size_max(), recurrence ? recurrence->output_size : 0);
  m.attended = input(mixed_max);
  if (model.has_attention_gate)
    m.attention_gate = floats(model.q_size_max());
  if (recurrence) {
    m.recurrence.mixed = floats(recurrence->channels);
    m.recurrence.convolved = floats(recurrence->channels);
    m.recurrence.gate = floats(recurrence->output_size);
    if (recurrence->kind == model::mixer_kind::short_convolution) {
      m.recurrence.input_gate = floats(recurrence->channels);
    } else {
      m.recurrence.strength = floats(recurrence->value_head_count);
      m.recurrence.decay = floats(recurrence->value_head_count);
      m.recurrence.query_gain = cursor.part<float>(recurrence->key_size);
      m.recurrence.key_gain = cursor.part<float>(recurrence->key_size);
    }
  }
  const std::size_t slots = rows * model.expert_used_count;
  if (slots > 0) {
    m.experts.scores = floats(model.expert_count);
    m.experts.choices = cursor.part<expert_choice>(slots);
    m.experts.gathered = input_of(slots, model.hidden_size);
    m.experts.gated = input_of(slots, model.expert_ffn_size);
  }
  if (slots > 0 && model.shared_ffn_size > 0) {
    m.experts.shared = input(model.shared_ffn_size);
    m.experts.shared_score = floats(1);
  }
  if (slots == 0 || model.is_mixed())
    m.gated = input(model.ffn_size_max());
  const std::size_t columns_max =
      std::max<std::size_t>({model.hidden_size, mixed_max, model.ffn_size_max(),
                             model.expert_ffn_size, model.shared_ffn_size, model.layer_input_size});
  const std::size_t arranged = matmul_scratch_bytes(columns_max / block_columns);
  for (auto& each : m.per_thread) {
    each = {.gate = floats_of(rows_together, panels_together * panel_rows),
            .up = floats_of(rows_together, panels_together * panel_rows),
            .arranged = cursor.part<std::byte>(arranged)};
    if (model.layer_input_size > 0)
      each.layer_row = cursor.part<float>(std::size_t{model.layer_input_size} * model.layer_count);
    if (slots > 0) {
      each.first_slot = cursor.part<std::uint32_t>(model.expert_count + 2);
      each.slots = cursor.part<expert_slot>(slots);
      each.ranked = cursor.part<float>(model.expert_count);
    }
  }
  m.logits = logits > 0 ? floats(logits) : float_rows{};
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
