// Locally typical sampling against the formula of transformers' TypicalLogitsWarper, written down
// in doubles: log-softmax, entropy, distance of each surprise from it, cumulative share in that
// order.
#include "runtime/engine/philox.hpp"
#include "runtime/engine/sampler.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <vector>

using namespace baton;
using namespace baton::engine;

namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

std::vector<double> softmax(const std::vector<double>& scores) {
  const double max = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  for (const double x : scores)
    total += std::exp(x - max);
  std::vector<double> p;
  for (const double x : scores)
    p.push_back(std::exp(x - max) / total);
  return p;
}

// The scores that the warper keeps; -infinity marks what an earlier one has removed.
std::set<token_id> kept_by_warper(const std::vector<double>& scores, double mass) {
  const auto p = softmax(scores);
  double entropy = 0;
  for (const double q : p)
    entropy -= q > 0 ? q * std::log(q) : 0;
  std::vector<double> shifted;
  for (const double q : p)
    shifted.push_back(std::abs(-std::log(q) - entropy));
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return shifted[a] < shifted[b]; });
  double sum = 0;
  std::size_t last = 0; // (cumulative < mass).sum()
  for (; last + 1 < order.size(); ++last)
    if (sum += p[order[last]]; sum >= mass)
      break;
  std::set<token_id> kept;
  for (std::size_t i = 0; i < p.size(); ++i)
    if (p[i] > 0 && shifted[i] <= shifted[order[last]])
      kept.insert(static_cast<token_id>(i));
  return kept;
}

std::set<token_id> drawn_tokens(const std::vector<float>& logits, draw d, int draws) {
  std::set<token_id> seen;
  sampler_scratch scratch;
  for (int i = 0; i < draws; ++i) {
    d.token_index = static_cast<std::uint32_t>(i);
    auto copy = logits;
    const auto s = draw_token(copy, d, scratch);
    REQUIRE_MESSAGE(s, s.error().message);
    seen.insert(s->token);
  }
  return seen;
}

// The token that a uniform number selects from these, in the order of their ids.
token_id taken(const std::vector<double>& scores, const std::set<token_id>& kept, double u) {
  const auto p = softmax(scores);
  double total = 0;
  for (const token_id id : kept)
    total += p[static_cast<std::size_t>(id)];
  double sum = 0;
  for (const token_id id : kept)
    if (sum += p[static_cast<std::size_t>(id)]; sum > u * total)
      return id;
  return *kept.rbegin();
}

} // namespace

TEST_CASE("typical_p keeps the tokens nearest to the entropy, not the most likely") {
  // Shares 0.5, 0.25, 0.125, 0.125 have the entropy 1.75 bits and surprises of 1, 2, 3 and 3: the
  // second is nearest, then the first, then both others.
  std::vector<float> logits;
  for (const double p : {0.5, 0.25, 0.125, 0.125})
    logits.push_back(static_cast<float>(std::log(p)));
  draw d;
  d.sampling.seed = 3;
  d.sampling.typical_p = 0.2F;
  CHECK(drawn_tokens(logits, d, 300) == std::set<token_id>{1});
  d.sampling.typical_p = 0.3F;
  CHECK(drawn_tokens(logits, d, 300) == std::set<token_id>{0, 1});
  d.sampling.typical_p = 0.8F; // keeps all ties of the last one
  CHECK(drawn_tokens(logits, d, 300) == std::set<token_id>{0, 1, 2, 3});
}

TEST_CASE("typical_p draws by the formula of transformers") {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 2);
  sampler_scratch scratch;
  int same = 0, all = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<float> logits(round % 2 == 0 ? 50 : 1000);
    for (float& x : logits)
      x = normal(random);
    draw d;
    d.sampling.seed = static_cast<std::uint64_t>(round);
    d.sampling.temperature = 0.5F + 0.25F * static_cast<float>(round % 5);
    d.sampling.typical_p = 0.1F + 0.2F * static_cast<float>(round % 5);
    std::vector<double> scores;
    for (const float x : logits)
      scores.push_back(static_cast<double>(x) / static_cast<double>(d.sampling.temperature));
    const auto kept = kept_by_warper(scores, static_cast<double>(d.sampling.typical_p));
    auto copy = logits;
    const auto s = draw_token(copy, d, scratch);
    REQUIRE(s);
    CHECK(kept.contains(s->token));
    ++all;
    same += s->token == taken(scores, kept, uniform(d.sampling.seed, 0)) ? 1 : 0;
  }
  CHECK(same >= all - 1); // rounding of a share may decide
}

TEST_CASE("typical_p works on what top_k, top_p and min_p keep") {
  std::mt19937 random(9);
  std::normal_distribution<float> normal(0, 2);
  for (int round = 0; round < 60; ++round) {
    std::vector<float> logits(40);
    for (float& x : logits)
      x = normal(random);
    draw d;
    d.sampling.seed = static_cast<std::uint64_t>(round);
    d.sampling.typical_p = 0.5F;
    std::vector<double> scores(logits.begin(), logits.end());
    std::vector<double> sorted = scores;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    double border = 0;
    if (round % 3 == 0) {
      d.sampling.top_k = 7;
      border = sorted[6];
    } else if (round % 3 == 1) {
      d.sampling.min_p = 0.125F;
      border = sorted[0] + std::log(0.125);
    } else {
      d.sampling.top_p = 0.7F;
      const auto p = softmax(scores);
      double sum = 0;
      std::size_t i = 0;
      for (; sum < 0.7; ++i)
        sum += std::exp(sorted[i] - sorted[0]) * *std::max_element(p.begin(), p.end());
      border = sorted[i - 1];
    }
    for (double& x : scores)
      x = x < border ? minus_infinity : x;
    const auto kept = kept_by_warper(scores, 0.5);
    for (const token_id id : drawn_tokens(logits, d, 200))
      CHECK(kept.contains(id));
  }
}

TEST_CASE("a greedy draw ignores typical_p") {
  draw d;
  d.sampling.temperature = 0;
  d.sampling.typical_p = 0.2F;
  sampler_scratch scratch;
  std::vector<float> logits{3, 1, 2};
  const auto s = draw_token(logits, d, scratch);
  REQUIRE(s);
  CHECK(s->token == 0);
}
