// The frequencies of a model's rotary embedding (arXiv 2104.09864), for the native engine's tables
// and for engines behind runtime/plugin.
#pragma once

#include "runtime/model/description.hpp"

#include <span>
#include <vector>

namespace baton::model {

// Radians per position of each pair, [dimension_count / 2], including the scaling. factors
// [dimension_count / 2], or empty: each pair's frequency is divided by its factor.
std::vector<double> rope_frequencies(const rope_description& rope,
                                     std::span<const float> factors = {});

// The tensor with the factors of a rope, or an empty name. Longrope has two tensors. The length
// that the engine serves chooses, so that a row's rotation depends on its position alone.
std::string_view rope_factors_name(const rope_description& rope,
                                   std::uint32_t max_model_len) noexcept;

// Yarn's factor of the rotated dimensions, for models that do not say (section 3.4).
double yarn_magnitude(double scaling_factor, double weight = 1.0) noexcept;

// The part of the weight of yarn's magnitude that GGUF stores for latent attention (llama.cpp, tag
// DEEPSEEK2_YARN_LOG_MUL_FIX).
inline constexpr double latent_yarn_part = 0.1;

// A factor that is not a positive number would turn every logit into NaN. Errors: bad_model_file.
result<void> check_rope_factors(std::string_view tensor, std::span<const float> factors);

} // namespace baton::model
