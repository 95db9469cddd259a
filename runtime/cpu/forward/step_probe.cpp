#include "runtime/cpu/forward/step_probe.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace baton::cpu {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds probe_time{200};
constexpr std::size_t steps_min = 3; // for steps that take longer
constexpr std::uint32_t blocks_each = probe_positions / kv_block_positions + 1;

// The last layers with the head: all, or as many as fit the limit, but at least one.
model::layer_range probed_layers(const model::description& model) {
  auto left = probe_weights_max;
  std::uint32_t count = 0;
  while (count < model.layer_count) {
    const auto bytes = model.layer_bytes[model.layer_count - count - 1];
    if (count > 0 && bytes > left)
      break;
    left -= std::min(left, bytes);
    ++count;
  }
  const auto first = model.layer_count - count;
  return {.first = first, .count = count, .has_embedding = first == 0, .has_head = true};
}

micro_batch step_of(std::uint32_t rows, bool embeds, bool has_states) {
  micro_batch batch;
  for (std::uint32_t row = 0; row < rows; ++row) {
    slice s;
    s.sequence.ticket.value = row + 1;
    s.position = probe_positions;
    s.rows = 1;
    s.samples = true;
    for (std::uint32_t b = 0; b < blocks_each; ++b)
      s.blocks.push_back(row * blocks_each + b);
    if (has_states) {
      s.state_from = 2 * row + 1;
      s.state_to = s.state_from + 1;
    }
    batch.slices.push_back(std::move(s));
    batch.draws.emplace_back().sampling.temperature = 0;
    if (embeds)
      batch.tokens.push_back(static_cast<token_id>(row)); // any token
  }
  return batch;
}

// The median time of a step in seconds.
result<double> time_steps(engine_cpu& engine, const micro_batch& batch,
                          std::span<const float> activations) {
  std::vector<double> times;
  const auto until = clock::now() + probe_time;
  bool has_warmed = false; // the first step touches the memory
  while (times.size() < steps_min || clock::now() < until) {
    const auto began = clock::now();
    if (auto ran = engine.run(batch, activations); !ran)
      return ran.error();
    if (std::exchange(has_warmed, true))
      times.push_back(std::chrono::duration<double>(clock::now() - began).count());
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

} // namespace

result<step_probe> step_probe::load(const model::model_file& file, const model::description& model,
                                    const config& like, std::vector<probe_threads> engines,
                                    std::uint32_t rows_max) {
  step_probe probe;
  probe.model_ = &model;
  probe.range_ = probed_layers(model);
  probe.hidden_size_ = model.hidden_size;
  shared_weights weights;
  for (auto& threads_of_engine : engines) {
    config own;
    own.threads = threads_of_engine.threads;
    own.cpus = std::move(threads_of_engine.cpus);
    own.kv_blocks = rows_max * blocks_each;
    own.state_slots = 2 * rows_max;
    own.kv_cache_dtype = like.kv_cache_dtype;
    own.activation_bits = like.activation_bits;
    own.rows_max = rows_max;
    own.max_model_len = std::min(model.context_length, blocks_each * kv_block_positions);
    if (!weights) {
      auto read = engine_cpu::read(file, model, probe.range_, own);
      if (!read)
        return read.error();
      weights = *std::move(read);
    }
    auto engine = engine_cpu::load(file, model, probe.range_, own, weights);
    if (!engine)
      return engine.error();
    probe.engines_.push_back(*std::move(engine));
  }
  return probe;
}

result<std::vector<double>> step_probe::measure(std::uint32_t rows, bool at_once) {
  const auto batch = step_of(rows, range_.has_embedding, model_->recurrence.has_value());
  const std::vector<float> activations(range_.has_embedding ? 0 : std::size_t{rows} * hidden_size_);
  std::vector<result<double>> measured(engines_.size(), 0.0);
  const auto run = [&](std::size_t i) {
    measured[i] = time_steps(*engines_[i], batch, activations);
  };
  std::vector<std::jthread> beside;
  for (std::size_t i = 0; i < engines_.size(); ++i) {
    beside.emplace_back(run, i); // thread 0 of an engine is pinned, so it is not the caller's
    if (!at_once)
      beside.back().join();
  }
  beside.clear();
  const double scale = model::step_cost(*model_, model::whole(*model_), rows) /
                       model::step_cost(*model_, range_, rows);
  std::vector<double> seconds;
  for (const auto& one : measured) {
    if (!one)
      return one.error();
    seconds.push_back(*one * scale);
  }
  return seconds;
}

} // namespace baton::cpu
