// How one sequence chooses its tokens and when it ends. Filled and range-checked by the doors,
// carried by the scheduler, used by the sampler. Plain data: a step can be redone from it and the
// ids alone.
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
  // Tokens guessed and checked in one step: faster or not, never other tokens. -1: as the server is
  // set.
  std::int32_t num_speculative_tokens = -1;
  shared_constraint constraint{}; // what the answer must look like
  float typical_p = 1; // (0, 1]: locally typical sampling (Meister et al., arXiv 2202.00666)
  // A mark in the text (Kirchenbauer et al., arXiv 2301.10226): the logits of green tokens, this
  // share of the vocabulary, get so much more. Share 0: none.
  float watermark_gamma = 0; // [0, 1]
  float watermark_delta = 0; // >= 0
  // The same as `logprobs`, of the prompt's tokens behind the first.
  std::int32_t prompt_logprobs = -1;

  bool is_greedy() const noexcept { return temperature == 0; }
  bool has_watermark() const noexcept { return watermark_gamma != 0; }
  bool needs_history() const noexcept {
    return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0;
  }
  friend bool operator==(const sampling_params&, const sampling_params&) = default;
};

// When a sequence ends. Stop strings are the detokenizer's, the rest the scheduler's.
struct stopping {
  std::uint32_t tokens_max = 16;
  std::uint32_t tokens_min = 0; // before: no end-of-sequence or stop token, no end of a stop string
  bool ignore_eos = false;
  bool include_stop_text = false;
  std::vector<token_id> stop_ids;
  std::vector<std::string> stop_texts;
  friend bool operator==(const stopping&, const stopping&) = default;
};

} // namespace baton
