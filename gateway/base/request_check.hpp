// The ranges of every request field, and the check of a typed request against them: the doors that
// read JSON and the one that gets typed messages refuse the same values in the same words.
#pragma once

#include "gateway/config/config.hpp"
#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <cmath>

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
  // Of a float, which is what a request has. One that is not normal counts as 0: so do engines,
  // which flush such numbers.
  bool contains(float v) const noexcept {
    const float counted = std::fpclassify(v) == FP_SUBNORMAL ? 0 : v;
    const auto from = static_cast<float>(least), to = static_cast<float>(most);
    return (excludes_least ? counted > from : counted >= from) && counted <= to;
  }
};

inline constexpr real_range temperature_range{0, 2};
inline constexpr real_range top_p_range{0, 1, true};
inline constexpr real_range min_p_range{0, 1};
inline constexpr real_range typical_p_range{0, 1, true};
inline constexpr real_range watermark_gamma_range{0, 1};
inline constexpr real_range watermark_delta_range{0,
                                                  100}; // as bias_range: beyond, nothing else comes
// vLLM has no ends but 0; beyond 100 every seen token is banned, and below 1/100 nothing but seen
// ones comes, which logit_bias says better. Logits stay numbers between them.
inline constexpr real_range repetition_penalty_range{0.01, 100};
inline constexpr real_range penalty_range{-2, 2};
inline constexpr real_range bias_range{-100, 100};
inline constexpr std::int32_t top_k_max = 1 << 20;         // no vocabulary is larger
inline constexpr std::int32_t speculative_tokens_max = 16; // more are hardly ever right

// generate::prompt_tokens_max of a request that is cut to what the model takes: the desk, which
// knows the model, puts the number there.
inline constexpr std::uint32_t prompt_tokens_of_context = UINT32_MAX;
// That number: the answer's tokens have to find room too. 0: not known, nothing is cut.
std::uint32_t prompt_tokens_within(const generate& request, std::uint32_t context_max) noexcept;

// What an error names where the request's own field is not known: vLLM's.
inline constexpr const char* constraint_param = "structured_outputs";

// As vLLM: a temperature below this is 0, the likeliest token.
inline constexpr float temperature_least = 1e-5F;

// Numbers in range as the sampler takes them: no temperature too small to divide by, no negative
// zero, none that is not normal. For whatever door they came by.
void settle_numbers(sampling_params& s) noexcept;

// Errors: invalid_value (min_tokens above a max_tokens that the client said; take_defaults makes
// the model's default large enough).
result<void> check_least_tokens(const generate& request);
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
