// How likely a prompt's tokens are, each behind those before it (OpenAI's `echo` with `logprobs`,
// vLLM's `prompt_logprobs`): which rows of a batch tell that, and what becomes of their logits.
// Used by the last stage of every engine that has it.
#pragma once

#include "runtime/engine/sampler.hpp"
#include "schema/step.hpp"

#include <span>
#include <vector>

namespace baton::engine {

// Its logits tell of `token`, which comes behind it in the prompt.
struct scored_row {
  std::uint32_t pool = 0; // of the batch
  std::uint32_t row = 0;  // of the batch
  token_id token = 0;
};

// Of all pools that are scores, in order. Requires: the batch is valid.
std::vector<scored_row> scored_rows(const micro_batch& batch);

// logprob of `token`, and `top` of the likeliest, both of the raw log-softmax of `logits`
// [vocabulary], as draw_token tells them. Errors: internal (a logit is NaN or +infinity, or none is
// above -infinity).
result<sample> score_token(std::span<const float> logits, token_id token, std::uint32_t top,
                           sampler_scratch& scratch);

} // namespace baton::engine
