// Recurrent layers: gated delta nets. The rows of a sequence change its state one after the other,
// so the bits do not depend on how they are divided into steps. A state is cut into columns of
// values, which are independent of each other.
#include "runtime/cpu/forward/forward.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace baton::cpu {
namespace {

// modeling_qwen3_next.py of transformers adds it to the squares of a head.
constexpr float length_epsilon = 1e-6F;

// ln(1 + exp(x))
double softplus(double x) {
  return x > 30.0 ? x : std::log1p(std::exp(x));
}

} // namespace

void forward::run_recurrent(unsigned member, std::uint32_t index) {
  const layer_weights& layer = p_.weights.layers[index];
  const auto state_layer = memory_index(index);
  const step_memory& m = p_.memory;
  project(member, layer.recurrent.mixed, m.recurrence.mixed);
  project(member, layer.recurrent.gate, m.recurrence.gate);
  project(member, layer.recurrent.strength, m.recurrence.strength);
  project(member, layer.recurrent.decay, m.recurrence.decay);
  p_.team.barrier();
  const share own = share_of(rows_.size(), member);
  convolve_rows(own, layer, state_layer);
  const share sequences = share_of(sequences_.size(), member);
  for (std::size_t i = sequences.begin; i < sequences.end; ++i)
    keep_rows(sequences_[i], state_layer);
  p_.team.barrier();
  scan(member, state_layer);
  p_.team.barrier();
  finish_scanned(own, layer);
  p_.team.barrier();
  add_to_residual(member, layer.attention_out, m.attended, {nullptr, layer.post_attention_norm});
}

// The projected row that is `back` rows before row `at`; null before the first one of the sequence.
const float* forward::row_before(const sequence_rows& sequence, std::size_t at, std::size_t back,
                                 std::uint32_t state_layer) const {
  const std::size_t within = at - sequence.first_row;
  if (back <= within)
    return p_.memory.recurrence.mixed.row(at - back);
  if (sequence.of->state_from == 0)
    return nullptr;
  // The state has the last rows, the latest one last.
  const auto& sizes = *p_.model.recurrence;
  const std::size_t kept = sizes.convolution_rows - 1;
  return p_.kv.state(sequence.of->state_from, state_layer) +
         (kept - (back - within)) * sizes.channels();
}

// Also normalises queries and keys by their length, and finishes decays and strengths.
void forward::convolve_rows(share rows, const layer_weights& layer, std::uint32_t state_layer) {
  const auto& sizes = *p_.model.recurrence;
  const auto& m = p_.memory.recurrence;
  const auto& weights = layer.recurrent;
  std::vector<const float*> before(sizes.convolution_rows);
  auto sequence =
      std::upper_bound(sequences_.begin(), sequences_.end(), rows.begin,
                       [](std::size_t r, const sequence_rows& each) { return r < each.first_row; });
  for (std::size_t r = rows.begin; r < rows.end; ++r) {
    while (sequence != sequences_.end() && sequence->first_row <= r)
      ++sequence;
    for (std::size_t back = 0; back < before.size(); ++back)
      before[before.size() - 1 - back] = row_before(*(sequence - 1), r, back, state_layer);
    float* convolved = m.convolved.row(r);
    p_.table.convolve({.rows = before.data(),
                       .count = before.size(),
                       .weights = weights.convolution,
                       .channels = sizes.channels(),
                       .out = convolved});
    const float epsilon = length_epsilon / static_cast<float>(sizes.key_size);
    for (std::size_t h = 0; h < 2 * sizes.key_head_count; ++h) {
      float* head = convolved + h * sizes.key_size;
      p_.table.rms_norm(head, h < sizes.key_head_count ? m.query_gain : m.key_gain, sizes.key_size,
                        epsilon, head);
    }
    sigmoids(m.strength.row(r), sizes.value_head_count);
    float* decay = m.decay.row(r);
    for (std::size_t h = 0; h < sizes.value_head_count; ++h)
      decay[h] = static_cast<float>(std::exp(double{weights.decay_scale[h]} *
                                             softplus(double{decay[h]} + weights.decay_bias[h])));
  }
}

// Stores the rows that the convolution of the next step reads.
void forward::keep_rows(const sequence_rows& sequence, std::uint32_t state_layer) {
  const auto& sizes = *p_.model.recurrence;
  float* to = p_.kv.state(sequence.of->state_to, state_layer);
  const std::size_t last = sequence.first_row + sequence.of->rows - 1;
  for (std::size_t back = sizes.convolution_rows - 1; back-- > 0; to += sizes.channels()) {
    const float* kept = row_before(sequence, last, back, state_layer);
    if (kept != nullptr)
      std::memcpy(to, kept, sizes.channels() * sizeof(float));
    else
      std::fill_n(to, sizes.channels(), 0.0F);
  }
}

// Members take parts of heads of sequences.
void forward::scan(unsigned member, std::uint32_t state_layer) {
  const auto& sizes = *p_.model.recurrence;
  const auto& m = p_.memory.recurrence;
  const std::size_t parts = sizes.value_size / scan_columns;
  const std::size_t parts_of_row = sizes.value_head_count * parts;
  const std::size_t kept = std::size_t{sizes.convolution_rows - 1} * sizes.channels();
  const std::size_t part_size = std::size_t{sizes.key_size} * scan_columns;
  const share own = share_of(sequences_.size() * parts_of_row, member);
  for (std::size_t i = own.begin; i < own.end; ++i) {
    const auto& [of, first_row] = sequences_[i / parts_of_row];
    const std::size_t part = i % parts_of_row, head = part / parts;
    const std::size_t key_head = sizes.alternates_key_heads
                                     ? head % sizes.key_head_count
                                     : head / (sizes.value_head_count / sizes.key_head_count);
    const auto state = [&](std::uint32_t slot) {
      return p_.kv.state(slot, state_layer) + kept + part * part_size;
    };
    const float* mixed = m.convolved.row(first_row);
    p_.table.scan({.query = mixed + key_head * sizes.key_size,
                   .key = mixed + sizes.keys_size() + key_head * sizes.key_size,
                   .value = mixed + 2 * std::size_t{sizes.keys_size()} + part * scan_columns,
                   .stride = m.convolved.stride,
                   .decay = m.decay.row(first_row) + head,
                   .strength = m.strength.row(first_row) + head,
                   .weight_stride = m.decay.stride,
                   .rows = of->rows,
                   .key_size = sizes.key_size,
                   .from = of->state_from == 0 ? nullptr : state(of->state_from),
                   .to = state(of->state_to),
                   .out = p_.memory.attended.values.row(first_row) + part * scan_columns,
                   .out_stride = p_.memory.attended.values.stride});
  }
}

// Normalises and gates each head's output, and quantises the rows for the next product.
void forward::finish_scanned(share rows, const layer_weights& layer) {
  const auto& sizes = *p_.model.recurrence;
  for (std::size_t r = rows.begin; r < rows.end; ++r) {
    float* out = p_.memory.attended.values.row(r);
    for (std::size_t h = 0; h < sizes.value_head_count; ++h)
      p_.table.rms_norm(out + h * sizes.value_size, layer.recurrent.norm, sizes.value_size,
                        p_.model.rms_epsilon, out + h * sizes.value_size);
    p_.table.silu_multiply(p_.memory.recurrence.gate.row(r), out, sizes.values_size(), out);
  }
  if (!layer.attention_out.is_float())
    quantise_attended(rows, 0, sizes.values_size());
}

} // namespace baton::cpu
