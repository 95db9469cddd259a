#include "runtime/gpu/stage/expert_layers.hpp"

#include "runtime/gpu/bodies/expert_bodies.hpp"

#include <algorithm>

namespace baton::gpu {

std::uint32_t expert_rows_on_device(const device& on, const plugin::decoder& model,
                                    const plugin::settings& with) {
  const bool is_in_runs = are_whole_runs(with.weights, model.hidden_size) &&
                          are_whole_runs(with.weights, model.expert_ffn_size);
  return is_in_runs ? std::min(on.expert_rows_max(), with.rows_max) : 0;
}

expert_layers::expert_layers(device& on, const plugin::decoder& model, const plugin::settings& with,
                             stage_products& products, const std::vector<layer_weights>& layers)
    : on_(on), model_(model), with_(with), products_(products),
      rows_on_device_(expert_rows_on_device(on, model, with)) {
  take_memory();
  if (rows_on_device_ > 0)
    upload_addresses(layers);
}

void expert_layers::take_memory() {
  const auto& m = model_;
  const std::uint64_t rows = with_.rows_max, own = bytes_of(with_.weights), hidden = m.hidden_size;
  const std::uint64_t pairs = std::uint64_t{rows_on_device_} * m.expert_used_count,
                      most = std::max(rows_on_device_ < rows ? rows : 0, pairs);
  scores_ = on_.take(rows * m.expert_count * sizeof(float));
  chosen_ = on_.take(rows * m.expert_used_count * sizeof(std::uint32_t));
  weights_ = on_.take(rows * m.expert_used_count * sizeof(float));
  gate_up_ = on_.take(most * 2 * m.expert_ffn_size * own);
  gated_ = on_.take(most * m.expert_ffn_size * own);
  expert_out_ = on_.take(most * hidden * sizeof(float));
  if (rows_on_device_ > 0) {
    counts_ = on_.take(m.expert_count * sizeof(std::uint32_t));
    tiles_ = on_.take(pairs * sizeof(expert_tile)); // enough for the lowest tiles
    pairs_ = on_.take(pairs * sizeof(std::uint32_t));
    order_ = on_.take(pairs * sizeof(std::uint32_t));
  }
  if (rows_on_device_ < rows) {
    expert_in_ = on_.take(rows * hidden * own);
    picked_ = on_.take(rows * sizeof(std::uint32_t));
    picked_weights_ = on_.take(rows * sizeof(float));
    by_expert_.resize(m.expert_count);
  }
}

void expert_layers::upload_addresses(const std::vector<layer_weights>& layers) {
  std::vector<matrix> all;
  for (const auto& layer : layers) {
    for (const auto& expert : layer.ffn)
      all.push_back(expert.gate_up);
    for (const auto& expert : layer.ffn)
      all.push_back(expert.down);
  }
  matrices_ = on_.take(all.size() * sizeof(matrix));
  on_.upload(matrices_.as<void>(), all.data(), all.size() * sizeof(matrix));
  const auto* at = matrices_.as<matrix>();
  for (const auto& layer : layers) {
    layer_matrices_.push_back({at, at + layer.ffn.size()});
    at += 2 * layer.ffn.size();
  }
}

void expert_layers::run(std::size_t index, const layer_weights& layer, std::uint32_t rows,
                        const void* in, float* out, rank_sums* sums) {
  const auto& m = model_;
  products_.multiply({.kind = with_.weights,
                      .rows = rows,
                      .columns = m.hidden_size,
                      .outputs = m.expert_count,
                      .in = in,
                      .weights = nullptr,
                      .out = scores_.as<void>(),
                      .is_out_f32 = true},
                     layer.router);
  on_.kernels().choose({.rows = rows,
                        .experts = m.expert_count,
                        .used = m.expert_used_count,
                        .scores = scores_.as<float>(),
                        .normalises = m.normalises_experts,
                        .chosen = chosen_.as<std::uint32_t>(),
                        .weights = weights_.as<float>(),
                        .form = m.router,
                        .choice_bias = layer.choice_bias,
                        .scale = m.expert_scale,
                        .router_bias = layer.router_bias},
                       on_.stream());
  if (rows <= rows_on_device_)
    run_on_device(layer_matrices_[index], layer, rows, in, out);
  else
    run_by_host(layer, rows, in, out, sums);
}

void expert_layers::run_on_device(const expert_matrices& of, const layer_weights& layer,
                                  std::uint32_t rows, const void* in, float* out) {
  const auto& m = model_;
  const std::uint32_t used = m.expert_used_count, ffn = m.expert_ffn_size;
  const std::uint64_t pairs = std::uint64_t{rows} * used;
  const std::uint32_t height = tile_height_of(pairs, rows, m.expert_count),
                      tiles = tiles_max(pairs, m.expert_count, height);
  on_.kernels().group({.rows = rows,
                       .experts = m.expert_count,
                       .used = used,
                       .height = height,
                       .tile_count = tiles,
                       .chosen = chosen_.as<std::uint32_t>(),
                       .counts = counts_.as<std::uint32_t>(),
                       .tiles = tiles_.as<expert_tile>(),
                       .pairs = pairs_.as<std::uint32_t>(),
                       .order = order_.as<std::uint32_t>()},
                      on_.stream());
  expert_args a{};
  a.kind = with_.weights;
  a.form = with_.quantized;
  a.group = with_.group;
  a.height = height;
  a.tile_count = tiles;
  a.tiles = tiles_.as<expert_tile>();
  a.pairs = pairs_.as<std::uint32_t>();
  a.pairs_of_row = used;
  a.columns = m.hidden_size;
  a.outputs = 2 * std::uint64_t{ffn};
  a.matrices = of.gate_up;
  a.in = in;
  a.out = gate_up_.as<void>();
  on_.kernels().multiply_experts(a, on_.stream());
  on_.kernels().gate({.kind = with_.weights,
                      .rows = static_cast<std::uint32_t>(pairs),
                      .width = ffn,
                      .gate_up = gate_up_.as<void>(),
                      .out = gated_.as<void>(),
                      .act = m.act,
                      .bias = layer.gate_up_bias,
                      .experts = chosen_.as<std::uint32_t>()},
                     on_.stream());
  a.pairs_of_row = 1;
  a.columns = ffn;
  a.outputs = m.hidden_size;
  a.matrices = of.down;
  a.in = gated_.as<void>();
  a.out = expert_out_.as<void>();
  a.is_out_f32 = true;
  on_.kernels().multiply_experts(a, on_.stream());
  on_.kernels().combine({.rows = rows,
                         .used = used,
                         .width = m.hidden_size,
                         .order = order_.as<std::uint32_t>(),
                         .weights = weights_.as<float>(),
                         .from = expert_out_.as<float>(),
                         .out = out,
                         .bias = layer.down_bias,
                         .chosen = chosen_.as<std::uint32_t>()},
                        on_.stream());
}

void expert_layers::run_by_host(const layer_weights& layer, std::uint32_t rows, const void* in,
                                float* out, rank_sums* sums) {
  const std::uint32_t used = model_.expert_used_count;
  if (sums != nullptr) // a copy back would wait forever for ranks that are gone
    sums->finish();
  const std::size_t count = std::size_t{rows} * used;
  host_chosen_.resize(count);
  host_weights_.resize(count);
  on_.download(host_chosen_.data(), chosen_.as<void>(), count * sizeof(std::uint32_t));
  on_.download(host_weights_.data(), weights_.as<void>(), count * sizeof(float));
  for (auto& own : by_expert_)
    own = {};
  for (std::uint32_t row = 0; row < rows; ++row)
    for (std::uint32_t k = 0; k < used; ++k) {
      auto& own = by_expert_.at(host_chosen_[std::size_t{row} * used + k]);
      own.rows.push_back(row);
      own.weights.push_back(host_weights_[std::size_t{row} * used + k]);
    }
  on_.zero(out, std::size_t{rows} * model_.hidden_size * sizeof(float));
  // In the order of experts, so that a row's sum does not depend on other rows.
  for (std::size_t e = 0; e < by_expert_.size(); ++e)
    if (!by_expert_[e].rows.empty())
      run_expert(layer, e, in, out);
}

void expert_layers::run_expert(const layer_weights& layer, std::size_t index, const void* in,
                               float* out) {
  const auto& m = model_;
  const ffn_weights& expert = layer.ffn[index];
  const expert_rows& own = by_expert_[index];
  const auto bias_of = [&](const float* all, std::size_t columns) {
    return all != nullptr ? all + index * columns : nullptr;
  };
  const auto rows = static_cast<std::uint32_t>(own.rows.size());
  on_.upload(picked_.as<void>(), own.rows.data(), rows * sizeof(std::uint32_t));
  on_.upload(picked_weights_.as<void>(), own.weights.data(), rows * sizeof(float));
  on_.kernels().gather({.kind = with_.weights,
                        .rows = rows,
                        .width = m.hidden_size,
                        .picked = picked_.as<std::uint32_t>(),
                        .from = in,
                        .out = expert_in_.as<void>()},
                       on_.stream());
  products_.multiply({.kind = with_.weights,
                      .rows = rows,
                      .columns = m.hidden_size,
                      .outputs = 2 * std::uint64_t{m.expert_ffn_size},
                      .in = expert_in_.as<void>(),
                      .weights = nullptr,
                      .out = gate_up_.as<void>(),
                      .is_out_f32 = false},
                     expert.gate_up);
  on_.kernels().gate({.kind = with_.weights,
                      .rows = rows,
                      .width = m.expert_ffn_size,
                      .gate_up = gate_up_.as<void>(),
                      .out = gated_.as<void>(),
                      .act = m.act,
                      .bias = bias_of(layer.gate_up_bias, std::size_t{2} * m.expert_ffn_size)},
                     on_.stream());
  products_.multiply({.kind = with_.weights,
                      .rows = rows,
                      .columns = m.expert_ffn_size,
                      .outputs = m.hidden_size,
                      .in = gated_.as<void>(),
                      .weights = nullptr,
                      .out = expert_out_.as<void>(),
                      .is_out_f32 = true},
                     expert.down);
  on_.kernels().scatter({.rows = rows,
                         .width = m.hidden_size,
                         .picked = picked_.as<std::uint32_t>(),
                         .weights = picked_weights_.as<float>(),
                         .from = expert_out_.as<float>(),
                         .out = out,
                         .bias = bias_of(layer.down_bias, m.hidden_size)},
                        on_.stream());
}

} // namespace baton::gpu
