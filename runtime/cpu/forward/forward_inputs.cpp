// Embeddings of each layer (Gemma 3n and 4), and the scale of a layer's output. A row has an input
// for each layer: its token's embedding, plus the normalised projection of the embedding that
// enters the first layer. It gates a projection of the residual behind the layer's ffn.
#include "runtime/cpu/forward/forward.hpp"

#include <cmath>

namespace baton::cpu {

void forward::embed_for_layers(unsigned member, const micro_batch& batch) {
  const step_memory& m = p_.memory;
  const auto& model = p_.model;
  const packed_matrix& matrix = p_.weights.layer_projection;
  normalise(member, nullptr, forms_for({&matrix}));
  if (failure_)
    return;
  project(member, matrix, m.layer_inputs);
  p_.team.barrier();
  const std::size_t size = model.layer_input_size, width = size * model.layer_count;
  const float of_projection = 1.0F / std::sqrt(static_cast<float>(model.hidden_size));
  const float of_embedding = std::sqrt(static_cast<float>(size));
  const float of_sum = std::sqrt(0.5F);
  float* embedded = m.per_thread[member].layer_row;
  const share rows = share_of(rows_.size(), member);
  for (std::size_t r = rows.begin; r < rows.end; ++r) {
    float* inputs = m.layer_inputs.row(r);
    p_.table.scale(inputs, width, of_projection);
    for (std::size_t at = 0; at < width; at += size)
      p_.table.rms_norm(inputs + at, p_.weights.layer_projection_norm, size, model.rms_epsilon,
                        inputs + at);
    unpack_row(p_.weights.layer_embedding, static_cast<std::size_t>(batch.tokens[r]), embedded);
    p_.table.add_scaled(inputs, embedded, width, of_embedding);
    p_.table.scale(inputs, width, of_sum);
  }
}

// A panel of 32 outputs is one activation block, as in gate_and_up().
void forward::gate_layer_inputs(unsigned member, std::uint32_t layer) {
  const step_memory& m = p_.memory;
  const auto& scratch = m.per_thread[member];
  const layer_weights& weights = p_.weights.layers[layer];
  const std::size_t own = std::size_t{p_.range.first + layer} * p_.model.layer_input_size;
  const auto activate = activation();
  const auto quantise = p_.table.quantise[static_cast<std::size_t>(p_.width)];
  const share panels = share_of(weights.input_gate.panel_count(), member);
  in_pieces(rows_.size(), panels, [&](share rows, share some) {
    const std::size_t count = rows.end - rows.begin, blocks = some.end - some.begin;
    const std::size_t at = some.begin * panel_rows, width = blocks * panel_rows;
    multiply(member, weights.input_gate, m.normed.from_row(rows.begin), count, some, scratch.gate,
             /*adds=*/false);
    for (std::size_t r = 0; r < count; ++r) {
      const float* inputs = m.layer_inputs.row(rows.begin + r) + own + at;
      const input_rows to = m.layer_gated.from_row(rows.begin + r);
      activate(scratch.gate.row(r), inputs, width, to.values.row(0) + at);
      if (!weights.input_projection.is_float())
        quantise(to.values.row(0) + at, blocks,
                 to.record_row(0) + some.begin * activation_block_bytes(p_.width));
    }
  });
}

// Rows that this member finished itself need no barrier: those behind a norm.
void forward::finish_layer(unsigned member, std::uint32_t index) {
  const layer_weights& layer = p_.weights.layers[index];
  const bool has_inputs = layer.input_gate.rows > 0;
  if (failure_ || (!has_inputs && layer.scale == nullptr))
    return;
  if (has_inputs) {
    p_.team.barrier();
    normalise(member, nullptr, forms_for({&layer.input_gate}));
    if (failure_)
      return;
    gate_layer_inputs(member, index);
    p_.team.barrier();
    add_to_residual(member, layer.input_projection, p_.memory.layer_gated,
                    {nullptr, layer.input_norm});
  } else if (layer.post_ffn_norm == nullptr) {
    p_.team.barrier();
  }
  const share own = share_of_finished(member);
  for (std::size_t r = own.begin; r < own.end && layer.scale != nullptr; ++r)
    p_.table.scale(p_.memory.hidden.row(r), p_.model.hidden_size, *layer.scale);
}

} // namespace baton::cpu
