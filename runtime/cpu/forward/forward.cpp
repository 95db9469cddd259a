// The parts of a step, in the order of forward.hpp. Attention and KV are in forward_attention.cpp.
#include "runtime/cpu/forward/forward.hpp"

#include "runtime/engine/prompt_scores.hpp"

#include <cmath>
#include <cstring>

namespace baton::cpu {
namespace {

// Rows per rank; below, duplicate work costs less than another synchronisation.
constexpr std::size_t divided_rows_min = 8;

} // namespace

forward::forward(const forward_parts& parts, std::uint32_t max_model_len) : p_(parts) {
  const std::size_t chunks = max_model_len / kv_block_positions + 1;
  pages_.resize(p_.team.size());
  for (auto& pages : pages_)
    pages.resize(chunks);
  std::uint32_t with_keys = 0, recurrent = 0;
  for (std::uint32_t layer = 0; layer < p_.range.count; ++layer) {
    bool has_whole_blocks = !p_.model.latent;
    for (std::uint32_t h = 0; h < heads_of(layer).kv_count; ++h) {
      const auto own = p_.heads[p_.range.first + layer].of(h).count;
      query_heads_max_ = std::max(query_heads_max_, own);
      has_whole_blocks = has_whole_blocks && columns_of(layer, h).end % block_columns == 0;
    }
    has_whole_blocks_.push_back(has_whole_blocks);
    const auto shared = p_.model.layers[p_.range.first + layer].kv_layer;
    memory_indices_.push_back(is_recurrent(layer) ? recurrent++
                              : shared            ? memory_indices_[*shared - p_.range.first]
                                                  : with_keys++);
  }
  std::fill_n(p_.memory.value_gain, p_.model.has_value_norm ? head_size_max : 0, 1.0F);
  if (const auto& recurrence = p_.model.recurrence;
      recurrence && recurrence->kind == model::mixer_kind::delta_net) {
    const auto root = std::sqrt(static_cast<float>(recurrence->key_size));
    std::fill_n(p_.memory.recurrence.key_gain, recurrence->key_size, 1.0F / root);
    std::fill_n(p_.memory.recurrence.query_gain, recurrence->key_size, 1.0F / root / root);
  }
}

result<void> forward::run(const micro_batch& batch, std::span<const float> activations) {
  plan(batch);
  p_.team.run([&](unsigned member) { run_member(member, batch, activations); });
  if (failure_)
    return *failure_;
  return p_.range.has_head && p_.group != nullptr ? gather_logits() : result<void>{};
}

void forward::plan(const micro_batch& batch) {
  rows_.clear();
  sequences_.clear();
  items_.clear();
  sampling_rows_.clear();
  failure_.reset();
  for (const slice& s : batch.slices) {
    sequences_.push_back({&s, rows_.size()});
    plan_attention(s, static_cast<std::uint32_t>(rows_.size()));
    for (std::uint32_t i = 0; i < s.rows; ++i)
      rows_.push_back({&s, s.position + i});
    for (std::size_t left = s.draws(); left > 0; --left)
      sampling_rows_.push_back(rows_.size() - left);
    p_.ropes.extend_to(s.position + s.rows - 1);
  }
  for (const auto& scored : baton::engine::scored_rows(batch))
    sampling_rows_.push_back(scored.row);
  appends_within_ = items_.size() == batch.slices.size() && !p_.model.latent;
  plan_parts();
}

void forward::plan_parts() {
  const std::size_t rows = rows_.size();
  const bool is_divided = p_.group != nullptr && p_.group->in_parts() != nullptr &&
                          rows >= divided_rows_min * p_.group->width();
  const std::size_t parts = is_divided ? p_.group->width() : 1;
  row_borders_.clear();
  for (std::size_t part = 0; part <= parts; ++part)
    row_borders_.push_back(rows * part / parts);
}

forward::share forward::share_of(std::size_t count, unsigned member) const noexcept {
  return {count * member / p_.team.size(), count * (member + 1) / p_.team.size()};
}

// This member's share of the rows that this rank finishes.
forward::share forward::share_of_finished(unsigned member) const noexcept {
  const std::size_t part = is_divided() ? p_.group->rank() : 0;
  const share own = share_of(row_borders_[part + 1] - row_borders_[part], member);
  return {row_borders_[part] + own.begin, row_borders_[part] + own.end};
}

void forward::run_member(unsigned member, const micro_batch& batch,
                         std::span<const float> activations) {
  embed(share_of_finished(member), batch, activations);
  if (p_.weights.layer_projection.rows > 0)
    embed_for_layers(member, batch);
  for (std::uint32_t layer = 0; layer < p_.range.count && !failure_; ++layer)
    run_layer(member, layer);
  if (is_divided() && !failure_) // head, pooling and the next stage need all rows
    synchronise(member, [&] { return all_gather_parts(p_.memory.hidden); });
  if (!p_.range.has_head || failure_)
    return;
  p_.team.barrier();
  head(member);
}

forward::forms forward::forms_for(std::initializer_list<const packed_matrix*> matrices) {
  forms all;
  for (const auto* matrix : matrices)
    (matrix->is_float() ? all.values : all.records) |= matrix->rows > 0;
  return all;
}

forward::forms forward::forms_of_mixer(std::uint32_t index) const {
  const layer_weights& layer = p_.weights.layers[index];
  const auto& r = layer.recurrent;
  return is_recurrent(index)
             ? forms_for({&r.mixed, &r.gate, &r.input_gate, &r.strength, &r.decay})
             : forms_for({&layer.query, &layer.key, &layer.value, &layer.attention_gate});
}

void forward::run_layer(unsigned member, std::uint32_t index) {
  const layer_weights& layer = p_.weights.layers[index];
  const ffn_weights& ffn = layer.experts.empty() ? layer.ffn : layer.experts.front();
  const packed_matrix& router = layer.experts.empty() ? ffn.up : layer.router;
  const bool is_parallel = p_.model.has_parallel_ffn;
  const forms of_ffn = forms_for({&ffn.gate, &ffn.up, &router});
  forms needed = forms_of_mixer(index);
  if (is_parallel)
    needed = {needed.values || of_ffn.values, needed.records || of_ffn.records};
  // Norms read rows that this member embedded itself, or wait for the previous layer.
  if (index > 0)
    p_.team.barrier();
  normalise(member, layer.attention_norm, needed);
  if (failure_)
    return;
  if (is_recurrent(index)) {
    run_recurrent(member, index);
  } else if (p_.model.latent) {
    run_latent(member, index);
  } else {
    project_attention(member, layer);
    if (is_parallel) // both read these rows, and attention leaves `gated` alone
      gate_and_up_of_layer(member, ffn);
    run_attention(member, index);
  }
  if (failure_)
    return;
  p_.team.barrier();
  if (!is_parallel && layer.router_gain != nullptr) {
    run_ffn_beside(member, layer);
    if (failure_)
      return;
  } else if (!is_parallel) {
    normalise(member, layer.ffn_norm, of_ffn);
    if (failure_)
      return;
  }
  if (!is_parallel && !layer.experts.empty()) {
    run_experts(member, layer);
    return finish_layer(member, index);
  }
  if (!is_parallel) {
    gate_and_up_of_layer(member, ffn);
    p_.team.barrier();
  }
  add_to_residual(member, ffn.down, p_.memory.gated, {nullptr, layer.post_ffn_norm});
  finish_layer(member, index);
}

// From the projections to the residual.
void forward::run_attention(unsigned member, std::uint32_t index) {
  const layer_weights& layer = p_.weights.layers[index];
  const share own = share_of(rows_.size(), member);
  p_.team.barrier();
  if (p_.model.qk_norm == model::qk_norm_kind::rows) {
    normalise_projections(own, index);
    p_.team.barrier();
  }
  if (!appends_within_) {
    append(own, index, {0, heads_of(index).kv_count});
    p_.team.barrier();
  }
  attend(member, index);
  p_.team.barrier();
  if (!layer.attention_out.is_float() && !quantises_within(index)) {
    quantise_attended(own, 0, p_.model.q_size(p_.range.first + index));
    p_.team.barrier();
  }
  add_to_residual(member, layer.attention_out, p_.memory.attended,
                  {layer.attention_out_bias, layer.post_attention_norm});
}

void forward::gate_and_up_of_layer(unsigned member, const ffn_weights& ffn) {
  const step_memory& m = p_.memory;
  gate_and_up(member, ffn, m.normed, rows_.size(), share_of(ffn.gate.panel_count(), member),
              m.gated);
}

// hidden += matrix * input, changed first if the model family does so. These changes need whole
// rows and a group needs a sum, so the product is stored in `normed`, which is free at this point.
void forward::add_to_residual(unsigned member, const packed_matrix& matrix, const input_rows& input,
                              const added_change& change) {
  const step_memory& m = p_.memory;
  const share panels = share_of(matrix.panel_count(), member);
  const bool adds = !adds_aside(change);
  const float_rows& out = adds ? m.hidden : m.normed.values;
  multiply(member, matrix, input, rows_.size(), panels, out.from_column(panels.begin * panel_rows),
           adds);
  if (!adds)
    add_changed(member, change);
}

bool forward::adds_aside(const added_change& change) const noexcept {
  return change.bias != nullptr || change.gain != nullptr || p_.group != nullptr ||
         p_.model.residual_scale != 1.0F;
}

// hidden += normed, summed over the ranks, with the bias, normalised if there is a gain, scaled.
void forward::add_changed(unsigned member, const added_change& change) {
  const step_memory& m = p_.memory;
  const std::size_t width = p_.model.hidden_size;
  if (p_.group == nullptr)
    p_.team.barrier();
  else
    synchronise(member, [&] { return reduce_over_ranks(); });
  if (failure_)
    return;
  const share own = share_of_finished(member);
  for (std::size_t r = own.begin; r < own.end; ++r) {
    float* added = m.normed.values.row(r);
    if (change.bias != nullptr)
      p_.table.add(added, change.bias, width);
    if (change.gain != nullptr)
      norm(added, change.gain, added);
    if (change.gain_with_beside != nullptr) {
      p_.table.add(added, m.beside.row(r), width);
      norm(added, change.gain_with_beside, added);
    }
    if (p_.model.residual_scale == 1.0F)
      p_.table.add(m.hidden.row(r), added, width);
    else
      p_.table.add_scaled(m.hidden.row(r), added, width, p_.model.residual_scale);
  }
}

// The norm of a row of the stream.
void forward::norm(const float* x, const float* gain, float* out) const {
  const auto of_kind =
      p_.model.norm == model::norm_kind::rms ? p_.table.rms_norm : p_.table.layer_norm;
  of_kind(x, gain, p_.model.hidden_size, p_.model.rms_epsilon, out);
}

// Sums `normed` over the ranks: all rows, or only those that this rank finishes.
result<void> forward::reduce_over_ranks() const {
  const float_rows& rows = p_.memory.normed.values;
  const std::span<float> values(rows.data, rows_.size() * rows.stride);
  if (!is_divided())
    return p_.group->all_reduce(values);
  return p_.group->in_parts()->reduce_scatter(values, borders_in(rows.stride));
}

// Sends the rows that each rank has finished to all ranks.
result<void> forward::all_gather_parts(std::byte* rows, std::size_t row_bytes) const {
  return p_.group->in_parts()->all_gather({rows, rows_.size() * row_bytes}, borders_in(row_bytes));
}

result<void> forward::all_gather_parts(const float_rows& rows) const {
  return all_gather_parts(reinterpret_cast<std::byte*>(rows.data), rows.stride * sizeof(float));
}

// The borders between the ranks' rows. A row counts as `row_units` units.
std::vector<std::size_t> forward::borders_in(std::size_t row_units) const {
  std::vector<std::size_t> borders(row_borders_);
  for (auto& border : borders)
    border *= row_units;
  return borders;
}

void forward::embed(share rows, const micro_batch& batch, std::span<const float> activations) {
  const std::size_t width = p_.model.hidden_size;
  for (std::size_t r = rows.begin; r < rows.end; ++r) {
    float* hidden = p_.memory.hidden.row(r);
    if (!p_.range.has_embedding) {
      std::memcpy(hidden, activations.data() + r * width, width * sizeof(float));
      continue;
    }
    unpack_row(p_.weights.embedding, static_cast<std::size_t>(batch.tokens[r]), hidden);
    if (p_.model.embedding_scale != 1.0F)
      p_.table.scale(hidden, width, p_.model.embedding_scale);
  }
}

// Normalises the rows that this rank finishes, or copies them without a gain; afterwards all rows
// are available.
void forward::normalise(unsigned member, const float* gain, forms needed) {
  const input_rows& to = p_.memory.normed;
  const std::size_t width = p_.model.hidden_size;
  const share own = share_of_finished(member);
  for (std::size_t r = own.begin; r < own.end; ++r) {
    if (gain != nullptr)
      norm(p_.memory.hidden.row(r), gain, to.values.row(r));
    else
      std::memcpy(to.values.row(r), p_.memory.hidden.row(r), width * sizeof(float));
    if (needed.records)
      p_.table.quantise[static_cast<std::size_t>(p_.width)](to.values.row(r), width / block_columns,
                                                            to.record_row(r));
  }
  if (!is_divided())
    return p_.team.barrier();
  synchronise(member, [&]() -> result<void> {
    if (needed.values)
      if (auto ok = all_gather_parts(to.values); !ok)
        return ok;
    return needed.records ? all_gather_parts(to.records, to.record_stride) : result<void>{};
  });
}

void forward::multiply(unsigned member, const packed_matrix& matrix, const input_rows& input,
                       std::size_t rows, share panels, float_rows out, bool adds) const {
  if (panels.begin == panels.end || rows == 0)
    return;
  matmul_args args;
  args.panels = matrix.panel(panels.begin);
  args.panel_count = panels.end - panels.begin;
  args.blocks = matrix.blocks();
  args.activations =
      matrix.is_float() ? reinterpret_cast<const std::byte*>(input.values.data) : input.records;
  args.activation_stride =
      matrix.is_float() ? input.values.stride * sizeof(float) : input.record_stride;
  args.rows = rows;
  args.out = out.data;
  args.out_stride = out.stride;
  args.adds = adds;
  args.table = matrix.table;
  args.scratch = p_.memory.per_thread[member].arranged;
  p_.table.matmul[static_cast<std::size_t>(matrix.format)][static_cast<std::size_t>(p_.width)](
      args);
}

void forward::project(unsigned member, const packed_matrix& matrix, const input_rows& input,
                      const float_rows& out) const {
  const share own = share_of(matrix.panel_count(), member);
  multiply(member, matrix, input, rows_.size(), own, out.from_column(own.begin * panel_rows),
           /*adds=*/false);
}

void forward::project(unsigned member, const packed_matrix& matrix, const float_rows& out) const {
  project(member, matrix, p_.memory.normed, out);
}

void forward::project_attention(unsigned member, const layer_weights& layer) const {
  const step_memory& m = p_.memory;
  project(member, layer.query, m.query);
  project(member, layer.key, m.key);
  project(member, layer.value, m.value);
  if (layer.attention_gate.rows > 0)
    project(member, layer.attention_gate, m.attention_gate);
}

// A panel of 32 outputs is one activation block, so act(gate) * up is quantised immediately.
void forward::gate_and_up(unsigned member, const ffn_weights& ffn, const input_rows& input,
                          std::size_t rows, share panels, const input_rows& out) {
  const auto& scratch = p_.memory.per_thread[member];
  const auto activate = activation();
  in_pieces(rows, panels, [&](share some_rows, share some) {
    const std::size_t count = some_rows.end - some_rows.begin, blocks = some.end - some.begin;
    const input_rows from = input.from_row(some_rows.begin), to = out.from_row(some_rows.begin);
    multiply(member, ffn.gate, from, count, some, scratch.gate, /*adds=*/false);
    multiply(member, ffn.up, from, count, some, scratch.up, /*adds=*/false);
    for (std::size_t r = 0; r < count; ++r) {
      if (ffn.gate_bias != nullptr) {
        p_.table.add(scratch.gate.row(r), ffn.gate_bias + some.begin * panel_rows,
                     blocks * panel_rows);
        p_.table.add(scratch.up.row(r), ffn.up_bias + some.begin * panel_rows, blocks * panel_rows);
      }
      if (ffn.down.is_float()) {
        activate(scratch.gate.row(r), scratch.up.row(r), blocks * panel_rows,
                 to.values.row(r) + some.begin * panel_rows);
        continue;
      }
      activate(scratch.gate.row(r), scratch.up.row(r), blocks * panel_rows, scratch.up.row(r));
      p_.table.quantise[static_cast<std::size_t>(p_.width)](
          scratch.up.row(r), blocks,
          to.record_row(r) + some.begin * activation_block_bytes(p_.width));
    }
  });
}

result<void> forward::gather_logits() {
  const auto& counts = p_.logits_of_ranks;
  const std::size_t all = p_.group->rank() == 0 ? p_.model.vocab_size : 0;
  for (std::size_t i = 0; i < sampling_rows_.size(); ++i) {
    float* logits = p_.memory.logits.row(i);
    if (auto ok = p_.group->gather({logits, counts[p_.group->rank()]}, {logits, all}, counts); !ok)
      return ok;
  }
  return {};
}

void forward::head(unsigned member) {
  const step_memory& m = p_.memory;
  const packed_matrix& head = p_.weights.head;
  const share own = share_of(sampling_rows_.size(), member);
  for (std::size_t i = own.begin; i < own.end; ++i) {
    const float* hidden = m.hidden.row(sampling_rows_[i]);
    norm(hidden, p_.weights.output_norm, m.normed.values.row(i));
    if (!head.is_float())
      p_.table.quantise[static_cast<std::size_t>(p_.width)](m.normed.values.row(i), head.blocks(),
                                                            m.normed.record_row(i));
  }
  p_.team.barrier();
  const share panels = share_of(head.panel_count(), member);
  multiply(member, head, m.normed, sampling_rows_.size(), panels,
           m.logits.from_column(panels.begin * panel_rows), /*adds=*/false);
  const std::size_t count = (panels.end - panels.begin) * panel_rows;
  for (std::size_t i = 0; i < sampling_rows_.size(); ++i) {
    float* own_logits = m.logits.row(i) + panels.begin * panel_rows;
    if (p_.model.logit_scale != 1.0F)
      p_.table.scale(own_logits, count, p_.model.logit_scale);
    if (p_.model.final_soft_cap)
      p_.table.soft_cap(own_logits, count, *p_.model.final_soft_cap);
  }
}

} // namespace baton::cpu
