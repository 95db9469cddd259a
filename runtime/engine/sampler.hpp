// Logits to one token: watermark, penalties, temperature, truncation, draw. A pure function of its
// arguments, so a step done again draws the same token. Called by every engine's last stage.
#pragma once

#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace baton::engine {

struct weighted_token {
  float value = 0; // logit, then weight relative to the likeliest token
  token_id token = 0;
};

// Memory kept between calls, grown once to the vocabulary; holds nothing that a later call reads.
struct sampler_scratch {
  std::vector<float> raw;     // logits as they came, only if logprobs are asked for
  std::vector<float> weights; // exp((logit - max) / temperature)
  std::vector<double> sums;   // of runs of weights, or of buckets of like weights
  std::vector<weighted_token> candidates;
  std::vector<std::pair<double, std::uint32_t>> distances; // from the entropy, of candidates
};

// Tokens that a constraint lets come: bit id % 64 of word id / 64; none beyond the last word. No
// words: any token may.
using token_mask = std::span<const std::uint64_t>;

// Is this draw one that draw_token can carry out over such a vocabulary? Ids in range, parameters
// in the ranges of schema/sampling.hpp. Errors: invalid_value.
result<void> check_draw(const draw& d, std::size_t vocabulary_size);

// Draws one token from `logits` [vocabulary], which it modifies. In this order:
//   0. watermark_delta added to green tokens (watermark.hpp)
//   1. logit_bias added; banned ids to -infinity (OpenAI, vLLM min_tokens), and all that are not in
//      `mask`; if it has none but banned ones, they may come
//   2. repetition penalty over prompt and output (CTRL, arXiv 1909.05858), then frequency and
//      presence penalty over the output (OpenAI)
//   3. temperature; 0 takes the likeliest token, the lowest id of equals
//   4. top_k: exactly k stay, lower ids first among equals; top_p (arXiv 1904.09751): the fewest
//      likeliest whose share reaches p; min_p (arXiv 2407.01082): share of the likeliest's;
//      typical_p (arXiv 2202.00666): of what is left, the fewest whose surprise is nearest to the
//      entropy and whose share reaches p, with equals of the last one
//   5. the draw: Philox4x32-10, key = seed, counter = token_index
// logprob and top are of the raw log-softmax, before step 0 (vLLM V1's `raw_logprobs`).
// Same bits for the same arguments on every machine, exp included; only logprobs use libm's log.
// Errors: invalid_value (see check_draw), internal (a logit is NaN or +infinity, or none is above
// -infinity).
result<sample> draw_token(std::span<float> logits, const draw& d, sampler_scratch& scratch,
                          token_mask mask = {});

} // namespace baton::engine
