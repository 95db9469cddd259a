// Drives an engine with sequences of token ids, as a scheduler would: blocks in order, rows packed
// into micro_batches. Compares the results. Shared by the tests of a single CPU engine and of a
// group of them (tensor_group.hpp).
#pragma once

#include "runtime/cpu/forward/engine_cpu.hpp"
#include "tests/unit/cpu/isas.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace baton::testing {

// One sequence's part of a micro_batch: `rows` of its tokens from `position` on.
struct part {
  std::uint64_t sequence = 1; // also chooses its KV blocks
  std::vector<token_id> tokens;
  std::uint32_t position = 0;
  bool samples = true;
  std::uint32_t blocks_from = 0; // its first KV block
  std::uint32_t drafts = 0;      // how many of the last tokens are drafts
};

inline draw greedy_draw(std::int32_t logprobs = -1) {
  draw d;
  d.sampling.temperature = 0;
  d.sampling.logprobs = logprobs;
  return d;
}

inline micro_batch batch_of(const std::vector<part>& parts) {
  micro_batch batch;
  for (const part& p : parts) {
    slice s;
    s.sequence.ticket.value = p.sequence;
    s.position = p.position;
    s.rows = static_cast<std::uint32_t>(p.tokens.size());
    s.samples = p.samples;
    s.drafts = p.drafts;
    for (std::uint32_t b = 0; b * 64 < s.position + s.rows; ++b)
      s.blocks.push_back(p.blocks_from + b);
    batch.slices.push_back(std::move(s));
    batch.tokens.insert(batch.tokens.end(), p.tokens.begin(), p.tokens.end());
    batch.draws.insert(batch.draws.end(), p.samples ? 1 + p.drafts : 0, greedy_draw());
  }
  return batch;
}

// Gives the slices of a model with recurrent layers the slots of their states: one for each
// sequence and position. Requires: steps and prompts of fewer rows than `slots_of_sequence`.
inline constexpr std::uint32_t slots_of_sequence = 251, slots_of_tests = 4 * slots_of_sequence;
template <class Engine>
micro_batch with_states(micro_batch batch, const Engine& engine) {
  if constexpr (requires { engine.limits().state_slots; })
    for (slice& s : batch.slices) {
      if (engine.limits().state_slots == 0)
        continue;
      const auto slot_at = [&](std::uint32_t position) {
        const auto before = static_cast<std::uint32_t>(s.sequence.ticket.value - 1);
        return position == 0 ? 0 : 1 + before * slots_of_sequence + position % slots_of_sequence;
      };
      s.state_from = slot_at(s.position);
      s.state_to = slot_at(s.position + s.rows);
    }
  return batch;
}

using logits_by_position = std::map<std::uint32_t, std::vector<float>>;

inline void keep(logits_by_position& out, std::uint32_t position, std::span<const float> logits) {
  out[position] = {logits.begin(), logits.end()};
}

// Runs the parts in one step; `out` gets the logits of draw `index`, which belong to `position`.
template <class Engine>
void run_and_keep(Engine& engine, const std::vector<part>& parts, std::size_t index,
                  logits_by_position& out, std::uint32_t position) {
  const auto step = engine.run(with_states(batch_of(parts), engine), {});
  REQUIRE_MESSAGE(step, step.error().message);
  keep(out, position, engine.logits(index));
}

// Runs `tokens` in steps of the given sizes (the last one repeats); logits of each step's last row.
template <class Engine>
logits_by_position run_in_steps(Engine& engine, const std::vector<token_id>& tokens,
                                const std::vector<std::size_t>& sizes) {
  logits_by_position out;
  for (std::size_t at = 0, i = 0; at < tokens.size(); ++i) {
    const std::size_t count = std::min(sizes[std::min(i, sizes.size() - 1)], tokens.size() - at);
    part p;
    p.tokens.assign(tokens.begin() + static_cast<std::ptrdiff_t>(at),
                    tokens.begin() + static_cast<std::ptrdiff_t>(at + count));
    p.position = static_cast<std::uint32_t>(at);
    at += count;
    run_and_keep(engine, {p}, 0, out, static_cast<std::uint32_t>(at - 1));
  }
  return out;
}

// Runs all tokens in one step; logits of every row.
template <class Engine>
logits_by_position run_at_once(Engine& engine, const std::vector<token_id>& tokens) {
  const auto drafts = static_cast<std::uint32_t>(tokens.size() - 1);
  const auto step = engine.run(batch_of({{.tokens = tokens, .drafts = drafts}}), {});
  REQUIRE_MESSAGE(step, step.error().message);
  logits_by_position out;
  for (std::uint32_t i = 0; i <= drafts; ++i)
    keep(out, i, engine.logits(i));
  return out;
}

// Checks that every position of `found` has the bits of `expected`.
inline void check_same(const logits_by_position& expected, const logits_by_position& found) {
  REQUIRE(!found.empty());
  for (const auto& [at, logits] : found) {
    const auto position = at;
    CAPTURE(position);
    REQUIRE(expected.contains(position));
    CHECK(first_difference(expected.at(position), logits) == -1);
  }
}

inline std::vector<token_id> piece(const std::vector<token_id>& all, std::size_t from,
                                   std::size_t to) {
  return {all.begin() + static_cast<std::ptrdiff_t>(from),
          all.begin() + static_cast<std::ptrdiff_t>(to)};
}

} // namespace baton::testing
