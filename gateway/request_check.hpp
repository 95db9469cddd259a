// The ranges of every request field, and the check of a typed request against them: the doors that
// read JSON and the one that gets typed messages refuse the same values in the same words.
#pragma once

#include "gateway/config.hpp"
#include "schema/messages.hpp"
#include "schema/result.hpp"

namespace baton::gateway {

// Closed unless said otherwise. Sources: OpenAI's API reference; top_k, min_p, repetition_penalty
// and min_tokens: vLLM's SamplingParams.
struct real_range {
  double least;
  double most;
  bool excludes_least = false;
  bool contains(double v) const noexcept { // false for NaN
    return (excludes_least ? v > least : v >= least) && v <= most;
  }
};

inline constexpr real_range temperature_range{0, 2};
inline constexpr real_range top_p_range{0, 1, true};
inline constexpr real_range min_p_range{0, 1};
inline constexpr real_range typical_p_range{0, 1, true};
inline constexpr real_range watermark_gamma_range{0, 1};
inline constexpr real_range watermark_delta_range{0,
                                                  100}; // as bias_range: beyond, nothing else comes
// vLLM has no upper end; beyond 100 every seen token is banned, which logit_bias says better.
inline constexpr real_range repetition_penalty_range{0, 100, true};
inline constexpr real_range penalty_range{-2, 2};
inline constexpr real_range bias_range{-100, 100};
inline constexpr std::int32_t top_k_max = 1 << 20;         // no vocabulary is larger
inline constexpr std::int32_t speculative_tokens_max = 16; // more are hardly ever right

// What an error names where the request's own field is not known: vLLM's.
inline constexpr const char* constraint_param = "structured_outputs";

// Of min_tokens above max_tokens.
error more_than_most(const stopping& s);
error out_of_range(std::string_view param, const real_range& range, double value);

// Errors: invalid_value with the parameter's OpenAI name, unsupported_parameter (a constraint that
// cannot be kept).
result<void> check_ranges(const generate& request, const request_limits& limits);
// Token ids that the model does not have, a conversation for a model without a chat template.
result<void> check_against_model(const generate& request, const model_card& card);

// An upper guess of the tokens a request will take, for `reserve`: a token has at least one byte,
// and nothing is longer than the context (0: not known).
std::uint32_t tokens_estimate(const generate& request, std::uint32_t context_max) noexcept;

} // namespace baton::gateway
