// Drives an engine with sequences of token ids, as a scheduler would: blocks handed out in order,
// rows packed into micro_batches. Shared by the tests of the CPU engine.
#pragma once

#include "runtime/cpu/engine_cpu.hpp"

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
    for (std::uint32_t b = 0; b * 64 < s.position + s.rows; ++b)
      s.blocks.push_back(p.blocks_from + b);
    batch.slices.push_back(std::move(s));
    batch.tokens.insert(batch.tokens.end(), p.tokens.begin(), p.tokens.end());
    if (p.samples)
      batch.draws.push_back(greedy_draw());
  }
  return batch;
}

} // namespace baton::testing
