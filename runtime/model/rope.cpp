// The frequencies of the rotary embedding.
#include "runtime/model/rope.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace baton::model {
namespace {

// The share of the unscaled frequency in that of each pair: a ramp from 1 to 0 (arXiv 2309.00071,
// section 3.2).
class yarn_ramp {
public:
  explicit yarn_ramp(const rope_description& rope) {
    const double size = rope.dimension_count;
    // The pair that turns so often in the original context; it may be a fraction.
    const auto pair_of = [&](double turns) {
      return size * std::log(rope.original_context_size / (turns * 2 * std::numbers::pi)) /
             (2 * std::log(double{rope.base}));
    };
    first_ = pair_of(double{rope.fast_turns});
    last_ = pair_of(double{rope.slow_turns});
    if (rope.has_whole_borders) {
      first_ = std::floor(first_);
      last_ = std::ceil(last_);
    }
    first_ = std::max(first_, 0.0);
    last_ = std::min(last_, size - 1);
    if (first_ == last_) {
      last_ += 0.001; // as in transformers: a step
    }
  }
  double at(std::uint32_t pair) const {
    return 1.0 - std::clamp((pair - first_) / (last_ - first_), 0.0, 1.0);
  }

private:
  double first_ = 0, last_ = 0;
};

} // namespace

std::vector<double> rope_frequencies(const rope_description& rope, std::span<const float> factors) {
  const bool is_scaled =
      rope.scaling == rope_scaling_kind::linear || rope.scaling == rope_scaling_kind::yarn;
  const double stretch = is_scaled ? 1.0 / double{rope.scaling_factor} : 1.0;
  std::optional<yarn_ramp> ramp;
  if (rope.scaling == rope_scaling_kind::yarn) {
    ramp.emplace(rope);
  }
  std::vector<double> frequencies;
  for (std::uint32_t i = 0; i < rope.dimension_count / 2; ++i) {
    const double exponent = -2.0 * i / rope.dimension_count;
    const double factor = factors.empty() ? 1.0 : double{factors[i]};
    const double kept = ramp ? ramp->at(i) : 0.0;
    const double scale = stretch * (1.0 - kept) + kept;
    frequencies.push_back(scale * std::pow(double{rope.base}, exponent) / factor);
  }
  return frequencies;
}

std::string_view rope_factors_name(const rope_description& rope,
                                   std::uint32_t max_model_len) noexcept {
  if (rope.scaling == rope_scaling_kind::longrope) {
    return max_model_len > rope.original_context_size ? "rope_factors_long.weight"
                                                      : "rope_factors_short.weight";
  }
  return rope.has_factors ? "rope_freqs.weight" : "";
}

double yarn_magnitude(double scaling_factor, double weight) noexcept {
  return scaling_factor <= 1.0 ? 1.0 : 0.1 * weight * std::log(scaling_factor) + 1.0;
}

result<void> check_rope_factors(std::string_view tensor, std::span<const float> factors) {
  for (const float factor : factors)
    if (!std::isfinite(factor) || factor <= 0.0F)
      return fail(errc::bad_model_file, "tensor '{}' holds {}, not a factor", tensor, factor);
  return {};
}

} // namespace baton::model
