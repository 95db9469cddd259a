#include "gateway/api/openai/reply/best_of.hpp"

#include "schema/ensure.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace baton::gateway {

double mean_logprob(std::span<const token_detail> tokens) noexcept {
  if (tokens.empty()) {
    return -std::numeric_limits<double>::infinity();
  }
  const double sum =
      std::accumulate(tokens.begin(), tokens.end(), 0.0, [](double so_far, const token_detail& t) {
        return so_far + static_cast<double>(t.chosen.logprob);
      });
  return sum / static_cast<double>(tokens.size());
}

std::vector<std::uint32_t> likeliest(std::span<const double> means, std::uint32_t count) {
  ENSURE(count <= means.size(), "the best {} of {}", count, means.size());
  std::vector<std::uint32_t> indexes(means.size());
  std::iota(indexes.begin(), indexes.end(), 0U);
  std::stable_sort(indexes.begin(), indexes.end(),
                   [means](std::uint32_t a, std::uint32_t b) { return means[a] > means[b]; });
  indexes.resize(count);
  return indexes;
}

} // namespace baton::gateway
