// The choice of the best of several answers.
#include "gateway/api/openai/reply/best_of.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::gateway;

namespace {

std::vector<token_detail> tokens_of(std::initializer_list<float> logprobs) {
  std::vector<token_detail> out;
  for (const float l : logprobs)
    out.push_back({{"x", 1, l}, {}});
  return out;
}

} // namespace

TEST_CASE("an answer's score is its mean log-probability, independent of its length") {
  CHECK(mean_logprob(tokens_of({-1, -3})) == -2);
  CHECK(mean_logprob(tokens_of({-1, -1, -1, -1})) == -1);
  CHECK(mean_logprob({}) < -1e300);
}

TEST_CASE("the likeliest come first, equal ones in their order") {
  const std::vector<double> means{-2, -1, -3, -1, mean_logprob({})};
  CHECK(likeliest(means, 1) == std::vector<std::uint32_t>{1});
  CHECK(likeliest(means, 3) == std::vector<std::uint32_t>{1, 3, 0});
  CHECK(likeliest(means, 5) == std::vector<std::uint32_t>{1, 3, 0, 2, 4});
}
