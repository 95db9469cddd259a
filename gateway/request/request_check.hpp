// The ranges of all request fields, and the check of a typed request against them. JSON APIs and
// typed APIs refuse the same values with the same messages.
#pragma once

#include "gateway/config/config.hpp"
#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <cmath>

namespace baton::gateway {

// A closed interval unless marked. Sources: OpenAI's API reference; for top_k, min_p,
// repetition_penalty and min_tokens vLLM's SamplingParams.
struct real_range {
  double least;
  double most;
  bool excludes_least = false;
  bool contains(double v) const noexcept { // false for NaN
    return (excludes_least ? v > least : v >= least) && v <= most;
  }
  // For floats, the type in requests. A subnormal number counts as 0, because engines flush it.
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
// As bias_range: beyond 100 no other token is drawn.
inline constexpr real_range watermark_delta_range{0, 100};
// vLLM has no limits but 0. Beyond 100 every seen token is banned, and below 1/100 only seen ones
// are drawn; logit_bias serves both better. Within these limits logits stay finite.
inline constexpr real_range repetition_penalty_range{0.01, 100};
inline constexpr real_range penalty_range{-2, 2};
inline constexpr real_range bias_range{-100, 100};
inline constexpr std::int32_t top_k_max = 1 << 20;         // no vocabulary is larger
inline constexpr std::int32_t speculative_tokens_max = 16; // more are rarely accepted

// The prompt_tokens_max of a `generate` whose prompt is cut to fit the model. The pipeline client,
// which knows the model, replaces it by the number.
inline constexpr std::uint32_t prompt_tokens_of_context = UINT32_MAX;
// That number: the answer's tokens must fit too. 0: unknown, nothing is cut.
std::uint32_t prompt_tokens_within(const generate& request, std::uint32_t max_model_len) noexcept;

// The param of a constraint's error if the request's own field is unknown: vLLM's.
inline constexpr const char* constraint_param = "structured_outputs";

// As in vLLM: a lower temperature means 0, greedy sampling.
inline constexpr float temperature_least = 1e-5F;

// Prepares numbers in range for the sampler: no temperature too small to divide by, no negative
// zero, no subnormal number. For all APIs.
void normalize_numbers(sampling_params& s) noexcept;

// Errors: invalid_value (min_tokens above the client's max_tokens; take_defaults raises the model's
// default instead).
result<void> check_min_tokens(const generate& request);
error out_of_range(std::string_view param, const real_range& range, double value);

// Errors: invalid_value with the parameter's OpenAI name, unsupported_parameter (a constraint that
// cannot be enforced).
result<void> check_ranges(const generate& request, const request_limits& limits);
// Refuses token ids outside the vocabulary, and a chat for a model without a chat template.
result<void> check_against_model(const generate& request, const model_card& card);

// An upper bound of the tokens of a request, for `reserve`. A token has at least one byte, and the
// context limits the sum (0: unknown).
std::uint32_t tokens_estimate(const generate& request, std::uint32_t max_model_len) noexcept;

} // namespace baton::gateway
