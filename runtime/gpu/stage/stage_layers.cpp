// The computation of a step: embedding, layers, logits. Everything before and after it is in
// stage.cpp.
#include "runtime/gpu/stage/stage.hpp"

namespace baton::gpu {

// Depends only on `rows_` and on device memory, so it can be recorded.
void stage::compute() {
  has_added_ = false;
  if (model_.embeds)
    on_->kernels().embed({.kind = with_.weights,
                          .rows = rows_->rows(),
                          .hidden = model_.hidden_size,
                          .tokens = rows_->tokens(),
                          .table = weights_.embedding,
                          .scale = model_.embedding_scale,
                          .out = stream_.as<float>()},
                         on_->stream());
  for (std::uint32_t i = 0; i < model_.layer_count; ++i)
    run_layer(i);
  norm(weights_.layers.back().post_ffn_norm, nullptr);
  if (model_.heads && rows_->draws() > 0)
    make_logits();
  if (states_ && states_->has_rows())
    states_->compute(stream_.as<float>(), weights_.output_norm);
}

// Adds the pending rows to the stream, then computes its norm if there is a gain, or a copy.
void stage::norm(const float* added_gain, const float* gain, bool copies, const float* added_bias) {
  norm_args a{};
  a.kind = with_.weights;
  a.rows = rows_->rows();
  a.hidden = model_.hidden_size;
  a.stream = stream_.as<float>();
  a.added = has_added_ ? added_.as<float>() : nullptr;
  a.added_gain = added_gain;
  a.added_scale = model_.residual_scale;
  a.gain = gain;
  a.epsilon = model_.rms_epsilon;
  a.out = normed_.as<void>();
  a.copies = copies;
  a.added_bias = added_bias;
  a.subtracts_mean = model_.norms == plugin::norm_form::layer;
  on_->kernels().norm(a, on_->stream());
  has_added_ = false;
}

void stage::multiply(std::uint64_t outputs, std::uint64_t columns, const void* in,
                     const matrix& weights, void* out, bool is_out_f32, std::uint32_t rows) {
  products_->multiply({.kind = with_.weights,
                       .rows = rows,
                       .columns = columns,
                       .outputs = outputs,
                       .in = in,
                       .weights = nullptr,
                       .out = out,
                       .is_out_f32 = is_out_f32},
                      weights);
}

// Norms and rotates queries and keys, and writes keys and values to the cache.
void stage::rotate(std::uint32_t index) {
  const auto& m = model_;
  const layer_weights& w = weights_.layers[index];
  const plugin::layer& layer = layers_[index];
  const std::uint64_t query = std::uint64_t{m.head_count} * m.head_size,
                      kv = std::uint64_t{m.kv_head_count} * m.head_size;
  const bool are_whole = m.head_norms == plugin::head_norm::whole_rows;
  if (are_whole)
    on_->kernels().norm_parts({.kind = with_.weights,
                               .rows = rows_->rows(),
                               .row_elements = static_cast<std::uint32_t>(query + 2 * kv),
                               .query = static_cast<std::uint32_t>(query),
                               .key = static_cast<std::uint32_t>(kv),
                               .projected = projected_.as<void>(),
                               .query_norm = w.query_norm,
                               .key_norm = w.key_norm,
                               .epsilon = m.rms_epsilon},
                              on_->stream());
  rotate_args r{};
  r.kind = with_.weights;
  r.rows = rows_->rows();
  r.heads = m.head_count;
  r.projected = projected_.as<void>();
  r.bias = w.projection_bias;
  r.query_norm = are_whole ? nullptr : w.query_norm;
  r.key_norm = are_whole ? nullptr : w.key_norm;
  r.cosine = layer.is_rotated ? weights_.rotations[layer.rotation].cosine : nullptr;
  r.sine = layer.is_rotated ? weights_.rotations[layer.rotation].sine : nullptr;
  r.dimensions = m.rotated_dimensions;
  r.rotates_pairs = m.rotates == plugin::rotation::pairs;
  r.epsilon = m.rms_epsilon;
  r.query_scale = m.attention_scale;
  r.positions = rows_->positions();
  r.slot_mapping = rows_->slot_mapping();
  r.kv = kv_of(index);
  r.norms_behind = m.head_norms == plugin::head_norm::behind_rotation;
  r.growth_weight = layer.grows_queries ? m.growth_weight : 0;
  r.growth_offset = m.growth_offset;
  r.growth_length = m.growth_length;
  on_->kernels().rotate(r, on_->stream());
}

void stage::run_layer(std::uint32_t index) {
  const auto& m = model_;
  const layer_weights& w = weights_.layers[index];
  const plugin::layer& layer = layers_[index];
  const std::uint64_t query = std::uint64_t{m.head_count} * m.head_size,
                      kv = std::uint64_t{m.kv_head_count} * m.head_size, hidden = m.hidden_size;
  norm(index > 0 ? weights_.layers[index - 1].post_ffn_norm : nullptr, w.attention_norm,
       !m.has_pre_norms);
  multiply(query + 2 * kv, hidden, normed_.as<void>(), w.projection, projected_.as<void>(), false,
           rows_->rows());
  if (m.has_parallel_ffn) // reads the same rows
    gate_and_up(w.ffn.front(), m.ffn_size);
  rotate(index);
  attend_args a{};
  a.kind = with_.weights;
  a.heads = m.head_count;
  a.row_elements = static_cast<std::uint32_t>(query + 2 * kv);
  a.projected = projected_.as<void>();
  a.out = attended_.as<void>();
  a.window = layer.window;
  a.soft_cap = m.attention_soft_cap;
  a.kv = kv_of(index);
  a.sinks = w.sinks;
  attention_->attend(a, *rows_);
  multiply(hidden, query, attended_.as<void>(), w.attention_out, added_.as<void>(), true,
           rows_->rows());
  sum_ranks();
  has_added_ = true;
  norm(w.post_attention_norm, w.ffn_norm, !m.has_pre_norms, w.attention_out_bias);
  if (w.router) {
    experts_->run(index, w, rows_->rows(), normed_.as<void>(), added_.as<float>(), sums_.get());
    run_shared(w);
  } else {
    if (!m.has_parallel_ffn)
      gate_and_up(w.ffn.front(), m.ffn_size);
    multiply(hidden, m.ffn_size, gated_.as<void>(), w.ffn.front().down, added_.as<void>(), true,
             rows_->rows());
  }
  sum_ranks();
  has_added_ = true;
}

// gated = act(gate * x) * (up * x) of the normed rows.
void stage::gate_and_up(const ffn_weights& ffn, std::uint32_t width) {
  multiply(2 * std::uint64_t{width}, model_.hidden_size, normed_.as<void>(), ffn.gate_up,
           gate_up_.as<void>(), false, rows_->rows());
  on_->kernels().gate({.kind = with_.weights,
                       .rows = rows_->rows(),
                       .width = width,
                       .gate_up = gate_up_.as<void>(),
                       .out = gated_.as<void>(),
                       .act = model_.act},
                      on_->stream());
}

// Adds the shared experts to the sum of the others.
void stage::run_shared(const layer_weights& layer) {
  const std::uint64_t hidden = model_.hidden_size;
  if (!layer.shared.down)
    return;
  gate_and_up(layer.shared, model_.shared_ffn_size);
  multiply(hidden, model_.shared_ffn_size, gated_.as<void>(), layer.shared.down,
           shared_out_.as<void>(), true, rows_->rows());
  if (layer.shared_score)
    multiply(1, hidden, normed_.as<void>(), layer.shared_score, shared_scores_.as<void>(), true,
             rows_->rows());
  on_->kernels().join({.rows = rows_->rows(),
                       .width = model_.hidden_size,
                       .scores = layer.shared_score ? shared_scores_.as<float>() : nullptr,
                       .from = shared_out_.as<float>(),
                       .out = added_.as<float>()},
                      on_->stream());
}

// Replaces `added_` by the sum over the ranks.
void stage::sum_ranks() {
  if (with_.width == 1)
    return;
  const std::size_t count = std::size_t{rows_->rows()} * model_.hidden_size;
  if (sums_)
    return sums_->sum(added_.as<float>(), count);
  float* values = host_rows_.as<float>();
  on_->download(values, added_.as<void>(), count * sizeof(float));
  plugin::failure why;
  if (const auto s = shard_.all_reduce(shard_.context, values, count, &why);
      s != plugin::status::ok)
    throw refused(s, why.message);
  on_->upload(added_.as<void>(), values, count * sizeof(float));
}

// Computes the logits of the rows that draw, on the device.
void stage::make_logits() {
  const std::uint32_t draws = rows_->draws();
  const std::size_t own = model_.logit_count;
  norm_args a{};
  a.kind = with_.weights;
  a.rows = draws;
  a.hidden = model_.hidden_size;
  a.picked = rows_->picked();
  a.stream = stream_.as<float>();
  a.gain = weights_.output_norm;
  a.epsilon = model_.rms_epsilon;
  a.out = normed_.as<void>();
  a.subtracts_mean = model_.norms == plugin::norm_form::layer;
  on_->kernels().norm(a, on_->stream());
  multiply(own, model_.hidden_size, normed_.as<void>(), weights_.head, draws_->logits(), true,
           draws);
  if (model_.final_soft_cap > 0 || model_.logit_scale != 1)
    on_->kernels().cap({draws * own, draws_->logits(), model_.final_soft_cap, model_.logit_scale},
                       on_->stream());
}

} // namespace baton::gpu
