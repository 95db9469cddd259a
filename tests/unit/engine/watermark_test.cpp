// The green list: the same numbers as the detector's (sdk/python/tests/test_watermark.py), and its
// effect on the sampler.
#include "runtime/engine/sampler.hpp"
#include "runtime/engine/watermark.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <utility>
#include <vector>

using namespace baton;
using namespace baton::engine;

TEST_CASE("green tokens match the detector's") {
  std::vector<std::pair<token_id, token_id>> green;
  for (const token_id previous : {0, 1, 49151})
    for (token_id token = 0; token < 8; ++token)
      if (green_list(previous, 0.25F).contains(token))
        green.emplace_back(previous, token);
  CHECK(green ==
        std::vector<std::pair<token_id, token_id>>{{0, 3}, {1, 2}, {49151, 2}, {49151, 4}});
}

TEST_CASE("the share of green tokens is gamma, and no two lists are equal") {
  for (const float gamma : {0.1F, 0.5F}) {
    int green = 0, in_both = 0;
    constexpr int size = 50000;
    for (token_id token = 0; token < size; ++token) {
      const bool here = green_list(3, gamma).contains(token);
      green += here ? 1 : 0;
      in_both += here && green_list(4, gamma).contains(token) ? 1 : 0;
    }
    const double p = static_cast<double>(gamma);
    CHECK(std::abs(green - size * p) < 5 * std::sqrt(size * p * (1 - p)));
    CHECK(std::abs(in_both - size * p * p) < 5 * std::sqrt(size * p * p * (1 - p * p)));
  }
  for (token_id token = 0; token < 100; ++token) {
    CHECK_FALSE(green_list(5, 0.0F).contains(token));
    CHECK(green_list(5, 1.0F).contains(token));
  }
}

TEST_CASE("a watermark adds delta to green tokens first, and reports raw logprobs") {
  constexpr token_id previous = 17;
  const green_list greens(previous, 0.5F);
  token_id red = 0;
  while (greens.contains(red))
    ++red;
  token_id green = 0;
  while (!greens.contains(green))
    ++green;
  std::vector<float> logits(64, -50.0F);
  logits[static_cast<std::size_t>(red)] = 1.0F;
  logits[static_cast<std::size_t>(green)] = 0.0F;
  draw d;
  d.previous = previous;
  d.sampling.temperature = 0;
  d.sampling.watermark_gamma = 0.5F;
  d.sampling.logprobs = 0;
  sampler_scratch scratch;
  const auto drawn = [&](float delta) {
    d.sampling.watermark_delta = delta;
    auto copy = logits;
    auto s = draw_token(copy, d, scratch);
    REQUIRE_MESSAGE(s, s.error().message);
    return *s;
  };
  CHECK(drawn(0.5F).token == red);
  CHECK(drawn(2).token == green);
  CHECK(drawn(2).logprob == doctest::Approx(-std::log1p(std::exp(1.0))).epsilon(1e-5));
  // The penalty divides logits that the watermark has raised above 0.
  d.sampling.repetition_penalty = 3;
  d.history = {{green, 1, 0}};
  CHECK(drawn(2).token == red); // 2 / 3 < 1
  CHECK(drawn(4).token == green);
}

TEST_CASE("another previous token gives another green list") {
  draw d;
  d.sampling.temperature = 0;
  d.sampling.watermark_gamma = 0.5F;
  d.sampling.watermark_delta = 10;
  sampler_scratch scratch;
  int different = 0;
  for (token_id previous = 0; previous < 20; ++previous) {
    std::vector<float> logits(64, 0.0F);
    d.previous = previous;
    const auto s = draw_token(logits, d, scratch);
    REQUIRE(s);
    CHECK(green_list(previous, 0.5F).contains(s->token));
    different += s->token != 0 ? 1 : 0;
  }
  CHECK(different > 3);
}
