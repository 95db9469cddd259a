#include "runtime/engine/toy_engine.hpp"

#include "runtime/engine/pooling.hpp"
#include "runtime/engine/prompt_scores.hpp"
#include "schema/ensure.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace baton::engine {
namespace {

constexpr std::uint32_t floats_per_row = 4;

// The finalizer of SplitMix64 (Steele, Lea, Flood 2014) over both values.
constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t x = a * 0x9E3779B97F4A7C15ull + b + 0x632BE59BD9B4E019ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

std::uint64_t embed(const toy_model& model, token_id token) noexcept {
  return mix(model.seed, static_cast<std::uint64_t>(token));
}

// The KV entry of a row in a layer at a position.
std::uint64_t kept(std::uint64_t row, std::uint32_t layer, std::uint64_t position) noexcept {
  return mix(mix(row, layer + 1), position);
}

// The recurrent state behind a row. It differs from any fold of KV entries.
std::uint64_t recurred(std::uint64_t state, std::uint64_t row, std::uint32_t layer) noexcept {
  return mix(~state, mix(row, ~std::uint64_t{layer}));
}

// Each layer's fold over the positions so far, and its recurrent state.
struct oracle {
  explicit oracle(const toy_model& of)
      : model(of), histories(of.layers), states(of.has_states ? of.layers : 0) {}

  // The row after all layers.
  std::uint64_t fold(token_id token, std::size_t position) noexcept {
    std::uint64_t row = embed(model, token);
    for (std::uint32_t layer = 0; layer < model.layers; ++layer) {
      histories[layer] = mix(histories[layer], kept(row, layer, position));
      row = mix(row, histories[layer]);
      if (states.empty())
        continue;
      states[layer] = recurred(states[layer], row, layer);
      row = mix(row, states[layer]);
    }
    return row;
  }

  const toy_model& model;
  std::vector<std::uint64_t> histories;
  std::vector<std::uint64_t> states;
};

// A stand-in for the hidden state after the last layer.
void fill_hidden(std::uint64_t row, std::span<float> hidden) noexcept {
  for (std::size_t i = 0; i < hidden.size(); ++i)
    hidden[i] = static_cast<float>(mix(row, ~i) >> 48) * (2.0f / 65536.0f) - 1.0f;
}

void fill_logits(std::uint64_t row, std::span<float> logits) noexcept {
  for (std::size_t v = 0; v < logits.size(); ++v)
    logits[v] = static_cast<float>(mix(row, v) >> 48) * (6.0f / 65536.0f) - 3.0f;
}

} // namespace

toy_engine::toy_engine(const toy_model& model, std::uint32_t first_layer, const toy_memory& memory,
                       std::uint32_t count, std::shared_ptr<grammar::masker> masker)
    : model_(model), first_layer_(first_layer), layers_(count), masks_(std::move(masker)) {
  ENSURE(count > 0 && first_layer + count <= model.layers, "{} layers from {} on, of {}", count,
         first_layer, model.layers);
  ENSURE(model.vocabulary_size > 0 && memory.block_positions > 0, "an empty toy model");
  ENSURE(model.has_states == (memory.state_slots > 0), "{} slots for states", memory.state_slots);
  limits_ = {.blocks = memory.blocks,
             .block_positions = memory.block_positions,
             .swap_blocks = memory.swap_blocks,
             .state_slots = memory.state_slots,
             .rows_max = memory.rows_max,
             .hidden_size = floats_per_row,
             .vocabulary_size = model.vocabulary_size,
             .max_model_len = memory.max_model_len,
             .model_hash = mix(mix(model.seed, model.layers), model.vocabulary_size) ^
                           (model.has_states ? 1U : 0U),
             .device = "toy",
             .pools = memory.pools,
             .scores = memory.pools};
  kv_.resize(std::size_t{count} * memory.blocks * memory.block_positions);
  is_written_.resize(kv_.size());
  swap_.resize(memory.swap_blocks);
  states_.resize(std::size_t{count} * (memory.state_slots + 1));
  logits_.resize(model.vocabulary_size);
}

result<step_output> toy_engine::run(const micro_batch& batch, std::span<const float> activations) {
  const bool is_first = first_layer_ == 0;
  if (auto ok = validate(batch, activations, limits_, is_first); !ok)
    return ok.error();
  for (const block_copy& c : batch.copies)
    if (auto ok = make_copy(batch, c); !ok)
      return ok.error();
  rows_.resize(batch.rows());
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    if (is_first) {
      rows_[r] = embed(model_, batch.tokens[r]);
      continue;
    }
    rows_[r] = 0;
    for (std::size_t part = floats_per_row; part-- > 0;)
      rows_[r] =
          rows_[r] << 16 | static_cast<std::uint16_t>(activations[r * floats_per_row + part]);
  }
  step_output out;
  const bool is_last = first_layer_ + layers_ == model_.layers;
  if (is_last)
    if (auto ok = masks_.find(batch); !ok)
      return ok.error();
  std::size_t first_row = 0, next_draw = 0, next_pool = 0;
  for (const slice& s : batch.slices) {
    for (std::uint32_t layer = 0; layer < layers_; ++layer)
      if (auto ok = run_slice(batch, s, first_row, layer); !ok)
        return ok.error();
    first_row += s.rows;
    for (std::size_t left = is_last ? s.draws() : 0; left > 0; --left) {
      fill_logits(rows_[first_row - left], logits_);
      auto drawn = draw_token(logits_, batch.draws[next_draw], scratch_, masks_.of(next_draw));
      ++next_draw;
      if (!drawn)
        return drawn.error();
      out.samples.push_back(std::move(*drawn));
    }
    const auto slice_index = static_cast<std::uint32_t>(&s - batch.slices.data());
    if (is_last && next_pool < batch.pools.size() && batch.pools[next_pool].slice == slice_index)
      out.pooled.push_back(pool_slice(batch.pools[next_pool++], s, first_row - s.rows));
  }
  if (is_last) {
    if (auto ok = score_rows(batch, out); !ok)
      return ok.error();
    return out;
  }
  activations_.resize(rows_.size() * floats_per_row);
  for (std::size_t i = 0; i < activations_.size(); ++i)
    activations_[i] =
        static_cast<std::uint16_t>(rows_[i / floats_per_row] >> (16 * (i % floats_per_row)));
  out.activations = activations_;
  return out;
}

pooled toy_engine::pool_slice(const pool& how, const slice& s, std::size_t first_row) const {
  if (how.how == pooling::scores)
    return {}; // filled by score_rows
  pooler sum(how, s, floats_per_row);
  std::array<float, floats_per_row> hidden{};
  for (std::size_t r = first_row; r < first_row + s.rows; ++r) {
    fill_hidden(rows_[r], hidden);
    sum.add(hidden);
  }
  return std::move(sum).finish();
}

result<void> toy_engine::score_rows(const micro_batch& batch, step_output& out) {
  for (const scored_row& r : scored_rows(batch)) {
    fill_logits(rows_[r.row], logits_);
    auto scored = score_token(logits_, r.token, batch.pools[r.pool].top, scratch_);
    if (!scored)
      return scored.error();
    out.pooled[r.pool].scores.push_back(*std::move(scored));
  }
  return {};
}

result<void> toy_engine::make_copy(const micro_batch& batch, const block_copy& c) {
  const std::size_t block = limits_.block_positions; // values per layer
  auto& swapped = swap_[c.swap_block];
  if (!c.is_out && !swapped)
    return fail(errc::internal, "micro_batch {}: block {} of swap space was never written",
                batch.batch.value, c.swap_block);
  if (c.is_out)
    swapped = {std::vector<std::uint64_t>(layers_ * block), std::vector<bool>(layers_ * block)};
  for (std::uint32_t layer = 0; layer < layers_; ++layer)
    for (std::size_t i = 0; i < block; ++i) {
      const auto here = layer * plane() + c.block * block + i;
      const auto there = layer * block + i;
      if (c.is_out) {
        swapped->kv[there] = kv_[here];
        swapped->is_written[there] = is_written_[here];
      } else {
        kv_[here] = swapped->kv[there];
        is_written_[here] = swapped->is_written[there];
      }
    }
  return {};
}

result<void> toy_engine::take_over(std::span<const std::shared_ptr<toy_engine>> from,
                                   std::span<const block_index> blocks,
                                   std::span<const std::uint32_t> states) {
  for (std::uint32_t layer = first_layer_; layer < first_layer_ + layers_; ++layer) {
    const auto other = std::find_if(from.begin(), from.end(), [&](const auto& e) {
      return e->first_layer_ <= layer && layer < e->first_layer_ + e->layers_;
    });
    if (other == from.end())
      return fail(errc::invalid_value, "no stage has layer {}", layer);
    toy_engine& has = **other;
    for (const auto slot : states) {
      if (slot == 0 || slot > limits_.state_slots || slot > has.limits_.state_slots)
        return fail(errc::invalid_value, "there is no state slot {}", slot);
      state(layer - first_layer_, slot) = has.state(layer - has.first_layer_, slot);
    }
    for (const auto block : blocks) {
      if (block >= limits_.blocks || block >= has.limits_.blocks)
        return fail(errc::invalid_value, "there is no block {}", block);
      for (std::size_t i = block * limits_.block_positions;
           i < (std::size_t{block} + 1) * limits_.block_positions; ++i) {
        const auto here = (layer - first_layer_) * plane() + i;
        const auto there = (layer - has.first_layer_) * has.plane() + i;
        kv_[here] = has.kv_[there];
        is_written_[here] = has.is_written_[there];
      }
    }
  }
  return {};
}

// A slot is written once, so it stands for one position.
result<std::uint64_t> toy_engine::read_state(const micro_batch& batch, const slice& s,
                                             std::uint32_t layer) {
  const auto& from = state(layer, s.state_from);
  if (from.position != s.position)
    return fail(
        errc::internal,
        "micro_batch {}: ticket {} reads state slot {} at position {}, it is of position {}",
        batch.batch.value, s.sequence.ticket.value, s.state_from, s.position, from.position);
  return from.value;
}

result<void> toy_engine::run_slice(const micro_batch& batch, const slice& s, std::size_t first_row,
                                   std::uint32_t layer) {
  const auto kv_index = [&](std::size_t position) {
    return layer * plane() +
           std::size_t{s.blocks[position / limits_.block_positions]} * limits_.block_positions +
           position % limits_.block_positions;
  };
  std::uint64_t state_now = 0;
  if (model_.has_states) {
    const auto before = read_state(batch, s, layer);
    if (!before)
      return before.error();
    state_now = *before;
  }
  for (std::size_t r = 0; r < s.rows; ++r) {
    const std::size_t position = s.position + r;
    std::uint64_t& row = rows_[first_row + r];
    kv_[kv_index(position)] = kept(row, first_layer_ + layer, position);
    is_written_[kv_index(position)] = true;
    std::uint64_t history = 0;
    for (std::size_t earlier = 0; earlier <= position; ++earlier) {
      if (!is_written_[kv_index(earlier)])
        return fail(errc::internal,
                    "micro_batch {}: ticket {} reads position {}, which was never written",
                    batch.batch.value, s.sequence.ticket.value, earlier);
      history = mix(history, kv_[kv_index(earlier)]);
    }
    row = mix(row, history);
    if (!model_.has_states)
      continue;
    state_now = recurred(state_now, row, first_layer_ + layer);
    row = mix(row, state_now);
  }
  if (model_.has_states)
    state(layer, s.state_to) = {state_now, s.position + s.rows};
  return {};
}

std::vector<token_id> toy_continuation(const toy_model& model, std::span<const token_id> prompt_ids,
                                       const sampling_params& sampling, std::uint32_t n,
                                       std::span<const token_id> banned, std::uint32_t min_tokens,
                                       std::shared_ptr<grammar::masker> masker) {
  std::vector<token_id> output;
  oracle layers(model);
  std::vector<float> logits(model.vocabulary_size);
  std::map<token_id, token_count> counts;
  sampler_scratch scratch;
  const std::size_t positions = prompt_ids.size() + n;
  for (std::size_t position = 0; position + 1 < positions; ++position) {
    const bool in_prompt = position < prompt_ids.size();
    const token_id token = in_prompt ? prompt_ids[position] : output[position - prompt_ids.size()];
    token_count& count = counts[token];
    count.token = token;
    ++(in_prompt ? count.in_prompt : count.in_output);
    const std::uint64_t row = layers.fold(token, position);
    if (position + 1 < prompt_ids.size())
      continue;
    draw d;
    d.token_index = static_cast<std::uint32_t>(output.size());
    d.sampling = sampling;
    if (sampling.has_watermark())
      d.previous = token;
    if (d.token_index < min_tokens)
      d.banned.assign(banned.begin(), banned.end());
    if (sampling.needs_history())
      for (const auto& [id, c] : counts)
        d.history.push_back(c);
    fill_logits(row, logits);
    grammar::token_bits mask;
    if (sampling.constraint) {
      ENSURE(masker, "the oracle has no vocabulary");
      const auto found = masker->find(sampling.constraint, {}, output, mask);
      ENSURE(found, "the oracle cannot constrain: {}", found.error().message);
    }
    auto drawn = draw_token(logits, d, scratch, mask);
    ENSURE(drawn.has_value(), "the oracle cannot draw: {}", drawn.error().message);
    output.push_back(drawn->token);
  }
  return output;
}

std::vector<float> toy_embedding(const toy_model& model, std::span<const token_id> prompt_ids,
                                 pooling how) {
  slice all;
  all.rows = static_cast<std::uint32_t>(prompt_ids.size());
  pooler sum({.slice = 0, .how = how, .is_last = true}, all, floats_per_row);
  oracle layers(model);
  std::array<float, floats_per_row> hidden{};
  for (std::size_t position = 0; position < prompt_ids.size(); ++position) {
    fill_hidden(layers.fold(prompt_ids[position], position), hidden);
    sum.add(hidden);
  }
  return std::move(sum).finish().values;
}

std::vector<sample> toy_scores(const toy_model& model, std::span<const token_id> prompt_ids,
                               std::uint32_t top) {
  std::vector<sample> all;
  oracle layers(model);
  std::vector<float> logits(model.vocabulary_size);
  sampler_scratch scratch;
  for (std::size_t position = 0; position < prompt_ids.size(); ++position) {
    if (position == 0)
      all.push_back({prompt_ids[0], 0, {}});
    const auto row = layers.fold(prompt_ids[position], position);
    if (position + 1 == prompt_ids.size())
      break;
    fill_logits(row, logits);
    auto scored = score_token(logits, prompt_ids[position + 1], top, scratch);
    ENSURE(scored.has_value(), "the oracle cannot score: {}", scored.error().message);
    all.push_back(*std::move(scored));
  }
  return all;
}

} // namespace baton::engine
