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
#include "schema/members/logit_bias.inc"
  friend bool operator==(const logit_bias&, const logit_bias&) = default;
};

// The defaults are OpenAI's, where it has the parameter, else vLLM's.
struct sampling_params {
#include "schema/members/sampling_params.inc"

  bool is_greedy() const noexcept {
    return temperature == 0;
  }
  bool has_watermark() const noexcept {
    return watermark_gamma != 0;
  }
  bool needs_history() const noexcept {
    return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0;
  }
  friend bool operator==(const sampling_params&, const sampling_params&) = default;
};

// When a sequence ends. The detokenizer matches stop strings; the scheduler checks the rest.
struct stopping {
#include "schema/members/stopping.inc"
  friend bool operator==(const stopping&, const stopping&) = default;
};

} // namespace baton
