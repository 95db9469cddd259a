// The check in front of every engine: compares a batch from the wire with the engine's limits
// before any memory is touched.
#include "runtime/engine/engine.hpp"
#include "runtime/engine/sampler.hpp"
#include "schema/ensure.hpp"

#include <algorithm>
#include <map>

namespace baton::engine {
namespace {

template <class... Args>
error wrong(const micro_batch& batch, fmt::format_string<Args...> text, Args&&... args) {
  return fail(errc::invalid_value, "micro_batch {}: {}", batch.batch.value,
              fmt::format(text, std::forward<Args>(args)...));
}

// The last slice of this batch that named a block.
struct block_use {
  std::uint32_t slice = 0; // 1 + index of the last slice
  bool is_written = false;
};

result<void> check_slice(const micro_batch& batch, std::size_t index, const capacity& limits,
                         std::vector<block_use>& uses) {
  const slice& s = batch.slices[index];
  if (s.rows == 0)
    return wrong(batch, "slice {} has no rows", index);
  if (s.drafts > 0 && (!s.samples || s.drafts >= s.rows))
    return wrong(batch, "slice {} has {} draft tokens in its {} rows", index, s.drafts, s.rows);
  const std::uint64_t end = std::uint64_t{s.position} + s.rows;
  if (end > limits.max_model_len)
    return wrong(batch, "slice {} ends at position {}, beyond the context of {}", index, end,
                 limits.max_model_len);
  const std::uint64_t needed = (end + limits.block_positions - 1) / limits.block_positions;
  if (s.blocks.size() != needed)
    return wrong(batch, "slice {} names {} KV blocks, its {} positions need {}", index,
                 s.blocks.size(), end, needed);
  const std::size_t first_written = s.position / limits.block_positions;
  for (std::size_t i = 0; i < s.blocks.size(); ++i) {
    if (s.blocks[i] >= limits.blocks)
      return wrong(batch, "slice {} names KV block {} of {}", index, s.blocks[i], limits.blocks);
    block_use& use = uses[s.blocks[i]];
    const bool is_written = i >= first_written;
    if (use.slice == index + 1)
      return wrong(batch, "slice {} names KV block {} twice", index, s.blocks[i]);
    if (use.slice != 0 && (is_written || use.is_written))
      return wrong(batch, "KV block {} is written by one slice and named by another", s.blocks[i]);
    use = {static_cast<std::uint32_t>(index + 1), is_written};
  }
  return {};
}

result<void> check_slices(const micro_batch& batch, const capacity& limits) {
  std::vector<block_use> uses(limits.blocks);
  std::uint64_t rows = 0, samples = 0;
  for (std::size_t i = 0; i < batch.slices.size(); ++i) {
    if (auto ok = check_slice(batch, i, limits, uses); !ok)
      return ok;
    rows += batch.slices[i].rows;
    samples += batch.slices[i].draws();
  }
  if (rows != batch.tokens.size())
    return wrong(batch, "slices cover {} rows, there are {} tokens", rows, batch.tokens.size());
  if (samples != batch.draws.size())
    return wrong(batch, "the slices draw {} tokens, there are {} draws", samples,
                 batch.draws.size());
  return {};
}

// Each slot that a slice writes is named by that slice alone.
result<void> check_states(const micro_batch& batch, const capacity& limits) {
  std::map<std::uint32_t, bool> uses; // slot, whether it is written
  for (std::size_t i = 0; i < batch.slices.size(); ++i) {
    const slice& s = batch.slices[i];
    if (limits.state_slots == 0) {
      if (s.state_from != 0 || s.state_to != 0)
        return wrong(batch, "slice {} names state slots of a model without states", i);
      continue;
    }
    if (s.state_to == 0 || s.state_to > limits.state_slots || s.state_from > limits.state_slots ||
        (s.state_from == 0) != (s.position == 0))
      return wrong(batch, "slice {} at position {} goes from state slot {} to {} of {}", i,
                   s.position, s.state_from, s.state_to, limits.state_slots);
    if (s.drafts > 0)
      return wrong(batch, "slice {} has draft tokens, a state cannot return to before them", i);
    if (!uses.try_emplace(s.state_to, true).second)
      return wrong(batch, "state slot {} is written by one slice and named by another", s.state_to);
    if (s.state_from != 0 && !uses.try_emplace(s.state_from, false).second && uses.at(s.state_from))
      return wrong(batch, "state slot {} is written by one slice and named by another",
                   s.state_from);
  }
  return {};
}

result<void> check_copies(const micro_batch& batch, const capacity& limits) {
  for (const block_copy& c : batch.copies)
    if (c.block >= limits.blocks || c.swap_block >= limits.swap_blocks)
      return wrong(batch, "a copy between KV block {} of {} and block {} of {} in swap space",
                   c.block, limits.blocks, c.swap_block, limits.swap_blocks);
  return {};
}

result<void> check_scores(const micro_batch& batch, const pool& p, const capacity& limits) {
  if (!limits.scores)
    return fail_param(errc::unsupported_parameter, "prompt_logprobs",
                      "this engine computes no prompt logprobs ({})", limits.device);
  if (p.next < 0 || static_cast<std::uint32_t>(p.next) >= limits.vocabulary_size ||
      p.top > limits.vocabulary_size || p.is_last || !p.before.empty())
    return wrong(batch, "slice {} is scored with next token {} and top {}", p.slice, p.next, p.top);
  return {};
}

result<void> check_pools(const micro_batch& batch, const capacity& limits) {
  std::uint32_t next = 0; // slice
  for (const pool& p : batch.pools) {
    if (p.slice < next || p.slice >= batch.slices.size() || batch.slices[p.slice].samples)
      return wrong(batch, "a pool of slice {} of {} is out of order or draws tokens", p.slice,
                   batch.slices.size());
    next = p.slice + 1;
    if (p.how == pooling::scores) {
      if (auto ok = check_scores(batch, p, limits); !ok)
        return ok;
      continue;
    }
    if (!limits.pools)
      return fail(errc::unsupported_parameter,
                  "micro_batch {}: this engine makes no embeddings ({})", batch.batch.value,
                  limits.device);
    if (p.how == pooling::none)
      return wrong(batch, "slice {} has no pooling method", p.slice);
    const bool has_rows_before = p.how != pooling::last && batch.slices[p.slice].position > 0;
    if (p.before.size() != (has_rows_before ? limits.hidden_size : 0))
      return wrong(batch, "slice {} at position {} has {} values from earlier rows", p.slice,
                   batch.slices[p.slice].position, p.before.size());
  }
  return {};
}

} // namespace

result<void> validate(const micro_batch& batch, std::span<const float> activations,
                      const capacity& limits, bool is_first_stage, bool may_be_fed) {
  ENSURE(limits.block_positions > 0, "an engine without a block size");
  if (batch.slices.empty())
    return wrong(batch, "no slices");
  if (batch.tokens.size() > limits.rows_max)
    return wrong(batch, "{} rows, at most {} fit", batch.tokens.size(), limits.rows_max);
  if (batch.slices.size() > batch.tokens.size())
    return wrong(batch, "{} slices of {} rows", batch.slices.size(), batch.tokens.size());
  if (auto ok = check_slices(batch, limits); !ok)
    return ok;
  if (auto ok = check_states(batch, limits); !ok)
    return ok;
  if (auto ok = check_copies(batch, limits); !ok)
    return ok;
  for (const token_id id : batch.tokens)
    if ((id < 0 || static_cast<std::uint32_t>(id) >= limits.vocabulary_size) &&
        !(may_be_fed && id == placeholder_token))
      return wrong(batch, "token id {} is outside the vocabulary of {}", id,
                   limits.vocabulary_size);
  for (const draw& d : batch.draws)
    if (auto ok = check_draw(d, limits.vocabulary_size); !ok)
      return ok;
  if (auto ok = check_pools(batch, limits); !ok)
    return ok;
  const std::uint64_t expected =
      is_first_stage ? 0 : std::uint64_t{batch.tokens.size()} * limits.hidden_size;
  if (activations.size() != expected)
    return wrong(batch, "{} activations, expected {}", activations.size(), expected);
  return {};
}

} // namespace baton::engine
