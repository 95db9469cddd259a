// The frequencies of the rotary embedding.
#include "runtime/model/rope.hpp"

#include <cmath>

namespace baton::model {

std::vector<double> rope_frequencies(const rope_description& rope, std::span<const float> factors) {
  const double stretch =
      rope.scaling == rope_scaling_kind::linear ? 1.0 / double{rope.scaling_factor} : 1.0;
  std::vector<double> frequencies;
  for (std::uint32_t i = 0; i < rope.dimension_count / 2; ++i) {
    const double exponent = -2.0 * i / rope.dimension_count;
    const double factor = factors.empty() ? 1.0 : double{factors[i]};
    frequencies.push_back(stretch * std::pow(double{rope.base}, exponent) / factor);
  }
  return frequencies;
}

result<void> check_rope_factors(std::span<const float> factors) {
  for (const float factor : factors)
    if (!std::isfinite(factor) || factor <= 0.0F)
      return fail(errc::bad_model_file, "tensor 'rope_freqs.weight' holds {}, not a factor",
                  factor);
  return {};
}

} // namespace baton::model
