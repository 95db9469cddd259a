// Logits to one token: watermark, penalties, temperature, truncation, draw. A pure function of its
// arguments, so a repeated step draws the same token. Called by every engine's last stage.
#pragma once

#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace baton::engine {

struct weighted_token {
  float value = 0; // logit, later weight relative to the most likely token
  token_id token = 0;
};

// Buffers reused between calls, grown once to the vocabulary; no call reads an earlier call's data.
struct sampler_scratch {
  std::vector<float> raw;     // unmodified logits, only if logprobs are requested
  std::vector<float> weights; // exp((logit - max) / temperature)
  std::vector<double> sums;   // of runs of weights, or of buckets of similar weights
  std::vector<weighted_token> candidates;
  std::vector<std::pair<double, std::uint32_t>> distances; // of candidates from the entropy
};

// Tokens that a constraint allows: bit id % 64 of element id / 64; none beyond the last element.
// Empty: all tokens are allowed.
using token_mask = std::span<const std::uint64_t>;

// Checks that draw_token can execute this draw: ids in the vocabulary, parameters in the ranges of
// schema/sampling.hpp. Errors: invalid_value.
result<void> check_draw(const draw& d, std::size_t vocabulary_size);

// Draws one token from `logits` [vocabulary], which it modifies. In this order:
//   0. Adds watermark_delta to green tokens (watermark.hpp).
//   1. Adds logit_bias. Sets banned ids (OpenAI, vLLM min_tokens) and all tokens outside `mask` to
//      -infinity. If the mask allows only banned tokens, the ban is lifted.
//   2. Repetition penalty over prompt and output (CTRL, arXiv 1909.05858), then frequency and
//      presence penalty over the output (OpenAI).
//   3. Temperature; 0 takes the most likely token, the lowest id among equals.
//   4. `top_k`: keeps exactly k, lower ids first among equals.
//      `top_p` (arXiv 1904.09751): keeps the fewest most likely tokens whose share reaches p.
//      `min_p` (arXiv 2407.01082): a minimum share relative to the most likely token.
//      `typical_p` (arXiv 2202.00666): of the rest, keeps the fewest whose surprisal is nearest to
//      the entropy and whose share reaches p, including ties with the last one.
//   5. Draws with Philox4x32-10, key = seed, counter = token_index.
// `logprob` and `top` come from the raw log-softmax before step 0 (vLLM V1's `raw_logprobs`). The
// same arguments give the same bits on every machine, exp included; only logprobs use libm's log.
// Errors: invalid_value (see check_draw), internal (NaN, +infinity, or no logit above -infinity).
result<sample> draw_token(std::span<float> logits, const draw& d, sampler_scratch& scratch,
                          token_mask mask = {});

} // namespace baton::engine
