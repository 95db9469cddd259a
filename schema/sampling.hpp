// How one sequence chooses its tokens and when it ends. API servers fill it in and check ranges,
// the scheduler carries it, the sampler uses it. Plain data: with the ids, it is enough to redo a
// step.
#pragma once

#include "schema/constraint.hpp"
#include "schema/ids.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace baton {

struct logit_bias {
  token_id token = 0;
  float bias = 0;
  friend bool operator==(const logit_bias&, const logit_bias&) = default;
};

// The defaults are OpenAI's, where it has the parameter, else vLLM's.
struct sampling_params {
  float temperature = 1;        // 0 is greedy
  std::int32_t top_k = 0;       // 0: off
  float top_p = 1;              // (0, 1]
  float min_p = 0;              // [0, 1]: least probability relative to the best token
  float repetition_penalty = 1; // > 0, over prompt and output (CTRL, arXiv 1909.05858)
  float presence_penalty = 0;   // over the output
  float frequency_penalty = 0;  // over the output
  std::uint64_t seed = 0;     // key of the counter-based generator; the counter is the token index
  std::int32_t logprobs = -1; // -1: none; 0: of the sampled token; n: and of the n likeliest
  std::vector<logit_bias> biases;
  // Draft tokens verified in one step. Affects speed only, never the tokens. -1: the server's
  // setting.
  std::int32_t num_speculative_tokens = -1;
  shared_constraint constraint{}; // required format of the answer
  float typical_p = 1; // (0, 1]: locally typical sampling (Meister et al., arXiv 2202.00666)
  // Watermark (Kirchenbauer et al., arXiv 2301.10226): `delta` is added to the logits of the green
  // tokens, which are the share `gamma` of the vocabulary. Share 0: none.
  float watermark_gamma = 0; // [0, 1]
  float watermark_delta = 0; // >= 0
  // The same as `logprobs`, for the prompt's tokens after the first.
  std::int32_t prompt_logprobs = -1;

  bool is_greedy() const noexcept { return temperature == 0; }
  bool has_watermark() const noexcept { return watermark_gamma != 0; }
  bool needs_history() const noexcept {
    return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0;
  }
  friend bool operator==(const sampling_params&, const sampling_params&) = default;
};

// When a sequence ends. The detokenizer matches stop strings; the scheduler checks the rest.
struct stopping {
  std::uint32_t max_tokens = 16;
  std::uint32_t min_tokens =
      0; // until then no end-of-sequence token, stop token or stop string ends it
  bool ignore_eos = false;
  bool include_stop_text = false;
  std::vector<token_id> stop_ids;
  std::vector<std::string> stop_texts;
  friend bool operator==(const stopping&, const stopping&) = default;
};

} // namespace baton
