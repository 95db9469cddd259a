// Prompt logprobs (OpenAI's `echo` with `logprobs`, vLLM's `prompt_logprobs`): selects the rows of
// a batch that score prompt tokens, and scores their logits. Used by the last stage of every engine
// that supports them.
#pragma once

#include "runtime/engine/sampler.hpp"
#include "schema/step.hpp"

#include <span>
#include <vector>

namespace baton::engine {

// A row whose logits score `token`, the next token of the prompt.
struct scored_row {
  std::uint32_t pool = 0; // of the batch
  std::uint32_t row = 0;  // of the batch
  token_id token = 0;
};

// The rows of all pools that are scores, in order. Requires: the batch is valid.
std::vector<scored_row> scored_rows(const micro_batch& batch);

// The logprob of `token` and the `top` most likely tokens, both from the raw log-softmax of
// `logits` [vocabulary], as draw_token reports them. Errors: internal (a logit is NaN or +infinity,
// or none is above -infinity).
result<sample> score_token(std::span<const float> logits, token_id token, std::uint32_t top,
                           sampler_scratch& scratch);

} // namespace baton::engine
