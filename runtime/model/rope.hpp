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

// A factor that is not a positive number would turn every logit into NaN. Errors: bad_model_file.
result<void> check_rope_factors(std::span<const float> factors);

} // namespace baton::model
