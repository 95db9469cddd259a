// Recurrent layers: gated delta nets, Mamba-2, short convolutions. The rows of a sequence change
// its state one after the other, so the bits do not depend on how they are divided into steps. A
// state is cut into columns of values, which are independent of each other.
#include "runtime/cpu/forward/forward.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace baton::cpu {
namespace {

using model::mixer_kind;

// modeling_qwen3_next.py of transformers adds it to the squares of a head.
constexpr float length_epsilon = 1e-6F;

// ln(1 + exp(x))
double softplus(double x) {
  return x > 30.0 ? x : std::log1p(std::exp(x));
}

// The first channels of queries, keys and values.
struct channel_parts {
  std::size_t query = 0, key = 0, value = 0;

  explicit channel_parts(const model::recurrence_description& sizes) {
    const std::size_t keys = sizes.keys_size(), values = sizes.values_size();
    if (sizes.kind == mixer_kind::mamba2) {
      key = values;
      query = values + keys;
    } else {
      key = keys;
      value = 2 * keys;
    }
  }
};

} // namespace

void forward::run_recurrent(unsigned member, std::uint32_t index) {
  const layer_weights& layer = p_.weights.layers[index];
  const auto state_layer = memory_index(index);
  const bool has_heads = p_.model.recurrence->value_head_count > 0;
  const share own = share_of(rows_.size(), member);
  project_recurrent(member, layer.recurrent);
  p_.team.barrier();
  if (layer.recurrent.input_gate.rows > 0) {
    gate_inputs(own);
    p_.team.barrier();
  }
  convolve_rows(own, layer.recurrent, state_layer);
  const share sequences = share_of(sequences_.size(), member);
  for (std::size_t i = sequences.begin; i < sequences.end; ++i)
    keep_rows(sequences_[i], state_layer);
  if (has_heads) {
    p_.team.barrier();
    scan(member, state_layer);
    p_.team.barrier();
  }
  finish_scanned(own, layer);
  p_.team.barrier();
  add_to_residual(member, layer.attention_out, p_.memory.attended,
                  {nullptr, layer.post_attention_norm});
}

void forward::project_recurrent(unsigned member, const recurrent_weights& weights) const {
  const auto& m = p_.memory.recurrence;
  const auto one = [&](const packed_matrix& matrix, const float_rows& out) {
    if (matrix.rows > 0)
      project(member, matrix, out);
  };
  one(weights.mixed, m.mixed);
  one(weights.gate, m.gate);
  one(weights.input_gate, m.input_gate);
  one(weights.strength, m.strength);
  one(weights.decay, m.decay);
}

void forward::gate_inputs(share rows) const {
  const auto& m = p_.memory.recurrence;
  for (std::size_t r = rows.begin; r < rows.end; ++r)
    p_.table.multiply(m.mixed.row(r), m.input_gate.row(r), p_.model.recurrence->channels);
}

// The projected row `back` rows before row `at`; null before the first row of the sequence.
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
         (kept - (back - within)) * sizes.channels;
}

void forward::convolve_rows(share rows, const recurrent_weights& weights,
                            std::uint32_t state_layer) {
  const auto& sizes = *p_.model.recurrence;
  const bool has_heads = sizes.value_head_count > 0;
  std::vector<const float*> before(sizes.convolution_rows);
  auto sequence =
      std::upper_bound(sequences_.begin(), sequences_.end(), rows.begin,
                       [](std::size_t r, const sequence_rows& each) { return r < each.first_row; });
  for (std::size_t r = rows.begin; r < rows.end; ++r) {
    while (sequence != sequences_.end() && sequence->first_row <= r)
      ++sequence;
    for (std::size_t back = 0; back < before.size(); ++back)
      before[before.size() - 1 - back] = row_before(*(sequence - 1), r, back, state_layer);
    p_.table.convolve({.rows = before.data(),
                       .count = before.size(),
                       .weights = weights.convolution,
                       .bias = weights.convolution_bias,
                       .channels = sizes.channels,
                       .activates = has_heads,
                       .out = p_.memory.recurrence.convolved.row(r)});
    if (has_heads)
      weigh_row(r, weights);
  }
}

// Finishes decays and strengths; with the delta rule also normalises queries and keys by their
// length.
void forward::weigh_row(std::size_t r, const recurrent_weights& weights) const {
  const auto& sizes = *p_.model.recurrence;
  const auto& m = p_.memory.recurrence;
  const bool has_delta_rule = sizes.kind == mixer_kind::delta_net;
  const float epsilon = length_epsilon / static_cast<float>(sizes.key_size);
  for (std::size_t h = 0; has_delta_rule && h < 2 * sizes.key_head_count; ++h) {
    float* head = m.convolved.row(r) + h * sizes.key_size;
    p_.table.rms_norm(head, h < sizes.key_head_count ? m.query_gain : m.key_gain, sizes.key_size,
                      epsilon, head);
  }
  float *decay = m.decay.row(r), *strength = m.strength.row(r);
  if (has_delta_rule)
    sigmoids(strength, sizes.value_head_count);
  for (std::size_t h = 0; h < sizes.value_head_count; ++h) {
    const double time = softplus(double{decay[h]} + double{weights.decay_bias[h]});
    decay[h] = static_cast<float>(std::exp(double{weights.decay_scale[h]} * time));
    if (!has_delta_rule)
      strength[h] = static_cast<float>(time);
  }
}

// Stores the rows that the convolution of the next step reads.
void forward::keep_rows(const sequence_rows& sequence, std::uint32_t state_layer) {
  const auto& sizes = *p_.model.recurrence;
  float* to = p_.kv.state(sequence.of->state_to, state_layer);
  const std::size_t last = sequence.first_row + sequence.of->rows - 1;
  for (std::size_t back = sizes.convolution_rows - 1; back-- > 0; to += sizes.channels) {
    const float* kept = row_before(sequence, last, back, state_layer);
    if (kept != nullptr)
      std::memcpy(to, kept, sizes.channels * sizeof(float));
    else
      std::fill_n(to, sizes.channels, 0.0F);
  }
}

// Members take parts of heads of sequences.
void forward::scan(unsigned member, std::uint32_t state_layer) {
  const auto& sizes = *p_.model.recurrence;
  const auto& m = p_.memory.recurrence;
  const channel_parts at(sizes);
  const std::size_t parts = sizes.value_size / scan_columns;
  const std::size_t parts_of_row = sizes.value_head_count * parts;
  const std::size_t kept = std::size_t{sizes.convolution_rows - 1} * sizes.channels;
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
    p_.table.scan({.query = mixed + at.query + key_head * sizes.key_size,
                   .key = mixed + at.key + key_head * sizes.key_size,
                   .value = mixed + at.value + part * scan_columns,
                   .stride = m.convolved.stride,
                   .decay = m.decay.row(first_row) + head,
                   .strength = m.strength.row(first_row) + head,
                   .weight_stride = m.decay.stride,
                   .rows = of->rows,
                   .key_size = sizes.key_size,
                   .has_delta_rule = sizes.kind == mixer_kind::delta_net,
                   .from = of->state_from == 0 ? nullptr : state(of->state_from),
                   .to = state(of->state_to),
                   .out = p_.memory.attended.values.row(first_row) + part * scan_columns,
                   .out_stride = p_.memory.attended.values.stride});
  }
}

// The outputs of the rows, quantised for the next product.
void forward::finish_scanned(share rows, const layer_weights& layer) {
  const auto& sizes = *p_.model.recurrence;
  const auto& m = p_.memory.recurrence;
  for (std::size_t r = rows.begin; r < rows.end; ++r) {
    if (sizes.value_head_count > 0) {
      finish_states_of(r, layer.recurrent);
      continue;
    }
    float* out = p_.memory.attended.values.row(r);
    std::memcpy(out, m.convolved.row(r), sizes.output_size * sizeof(float));
    p_.table.multiply(out, m.gate.row(r), sizes.output_size);
  }
  if (!layer.attention_out.is_float())
    quantise_attended(rows, 0, sizes.output_size);
}

// Delta nets normalise heads and then gate them. Mamba-2 adds a part of the values, gates, and then
// normalises the values of each group.
void forward::finish_states_of(std::size_t r, const recurrent_weights& weights) const {
  const auto& sizes = *p_.model.recurrence;
  float* out = p_.memory.attended.values.row(r);
  const float* gate = p_.memory.recurrence.gate.row(r);
  const bool gates_first = sizes.kind == mixer_kind::mamba2;
  if (gates_first) {
    const float* values = p_.memory.recurrence.convolved.row(r);
    for (std::size_t h = 0; h < sizes.value_head_count; ++h)
      p_.table.add_scaled(out + h * sizes.value_size, values + h * sizes.value_size,
                          sizes.value_size, weights.skip[h]);
    p_.table.silu_multiply(gate, out, sizes.output_size, out);
  }
  for (std::size_t at = 0; at < sizes.output_size; at += sizes.norm_size)
    p_.table.rms_norm(out + at, gates_first ? weights.norm + at : weights.norm, sizes.norm_size,
                      p_.model.rms_epsilon, out + at);
  if (!gates_first)
    p_.table.silu_multiply(gate, out, sizes.output_size, out);
}

} // namespace baton::cpu
