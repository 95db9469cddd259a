// Goal: a device draws the same token as the sampler. Method: the body that a device compiles, with
// one lane and with threads as lanes, against draw_token() over random logits with many ties, for
// every parameter.
#include "runtime/engine/philox.hpp"
#include "runtime/engine/sampler.hpp"
#include "runtime/gpu/bodies/draw_body.hpp"
#include "runtime/plugin/draw_writer.hpp"
#include "tests/unit/cpu/isas.hpp"
#include "tests/unit/gpu/thread_team.hpp"

#include <doctest/doctest.h>

#include <random>

using namespace baton;
using namespace baton::testing;

namespace {

// Memory for one draw, and its lists.
struct draw_case {
  std::vector<float> logits, weights;
  std::vector<std::uint32_t> tokens;
  std::vector<double> sums, buckets;
  plugin::draw_writer writer;
  plugin::draw_lists how;
  std::int32_t drawn = -7;

  draw_case(std::vector<float> values, const draw& d)
      : logits(std::move(values)), how(writer.write({&d, 1})) {
    weights.assign(logits.size(), NAN);
    tokens.assign(logits.size(), 99);
    sums.assign(gpu::runs_of(static_cast<std::uint32_t>(logits.size())), NAN);
    buckets.assign(gpu::weight_buckets, NAN);
  }
  draw_case(const draw_case&) = delete;
  draw_case& operator=(const draw_case&) = delete;

  std::int32_t run(std::uint32_t lanes) {
    const gpu::draw_args a{1,
                           static_cast<std::uint32_t>(logits.size()),
                           how.draws,
                           how.biases,
                           how.banned,
                           how.history,
                           logits.data(),
                           weights.data(),
                           tokens.data(),
                           sums.data(),
                           buckets.data(),
                           &drawn};
    if (lanes == 1)
      gpu::host_kernels().draw(a, nullptr);
    else
      run_lanes(lanes, [&](thread_lane& lane) { gpu::draw_row(lane, a, 0); });
    return drawn;
  }
};

void check_as_sampler(const std::vector<float>& logits, const draw& d, std::uint32_t lanes) {
  auto copy = logits;
  engine::sampler_scratch scratch;
  const auto expected = engine::draw_token(copy, d, scratch);
  REQUIRE_MESSAGE(expected, expected.error().message);
  CAPTURE(d.sampling.temperature);
  CAPTURE(d.sampling.top_k);
  CAPTURE(d.sampling.top_p);
  CAPTURE(d.sampling.min_p);
  CAPTURE(d.sampling.seed);
  REQUIRE(draw_case(logits, d).run(lanes) == expected->token);
}

draw random_draw(std::mt19937& random, std::uint32_t vocabulary) {
  const auto one_of = [&](const std::vector<float>& values) {
    return values[random() % values.size()];
  };
  const auto token = [&] { return static_cast<token_id>(random() % vocabulary); };
  draw d;
  d.token_index = static_cast<std::uint32_t>(random() % 5000);
  d.sampling.seed = std::uint64_t{random()} << 32 | random();
  d.sampling.temperature = one_of({0, 0.3F, 1, 1.7F, 5});
  d.sampling.top_k = static_cast<std::int32_t>(one_of({0, 0, 1, 5, 40, 400}));
  d.sampling.top_p = one_of({1, 1, 0.95F, 0.5F, 0.01F, 0.9999F});
  d.sampling.min_p = one_of({0, 0, 0.02F, 0.3F, 1});
  if (random() % 2 == 0) {
    d.sampling.repetition_penalty = one_of({1.3F, 0.8F});
    d.sampling.presence_penalty = one_of({0, 0.7F, -1});
    d.sampling.frequency_penalty = one_of({0, 0.4F});
    for (token_id id = 0; id < 40; ++id)
      d.history.push_back(
          {id, static_cast<std::uint32_t>(random() % 2), static_cast<std::uint32_t>(random() % 3)});
  }
  for (auto i = random() % 4; i > 0; --i)
    d.banned.push_back(token());
  for (auto i = random() % 4; i > 0; --i)
    d.sampling.biases.push_back({static_cast<token_id>(random() % 3), one_of({2, -100, 0.1F})});
  return d;
}

} // namespace

TEST_CASE("a device draws the token that the sampler draws, with any number of lanes") {
  std::mt19937 random(7);
  for (const std::uint32_t vocabulary : {51U, 256U, 1000U, 4099U})
    for (int i = 0; i < 300; ++i) {
      auto logits = random_floats(vocabulary, static_cast<std::uint32_t>(i), 9);
      if (i % 3 == 0) // ties
        for (auto& x : logits)
          x = std::round(x);
      if (i % 7 == 0) // one that stands out
        logits[random() % vocabulary] = 30;
      const auto d = random_draw(random, vocabulary);
      check_as_sampler(logits, d, 1);
      if (i % 10 == 0 && vocabulary <= 1000)
        for (const std::uint32_t lanes : {2U, 5U})
          check_as_sampler(logits, d, lanes);
    }
}

TEST_CASE("a flat distribution is cut inside a bucket of ties as the sampler cuts it") {
  draw d;
  d.sampling.top_p = 0.37F;
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    d.sampling.seed = seed;
    check_as_sampler(std::vector<float>(1500, 0.25F), d, 1);
    check_as_sampler(random_floats(700, seed, 0.02F), d, seed < 3 ? 3 : 1);
  }
}

// One token in tens of thousands decides by how much a share of 0.37 or 0.9 is exceeded there.
TEST_CASE("a flat distribution over a whole vocabulary is cut in a few passes, as by the sampler") {
  draw d;
  for (const float share : {0.37F, 0.9F, 0.998F})
    for (std::uint32_t seed = 0; seed < 6; ++seed) {
      d.sampling.top_p = share;
      d.sampling.seed = seed;
      check_as_sampler(std::vector<float>(60'000, 0.25F), d, 1);
      check_as_sampler(random_floats(60'000, seed, 0.02F), d, 1);
      auto tied = random_floats(60'000, seed, 0.02F);
      for (auto& x : tied)
        x = std::round(x * 400) / 400;
      check_as_sampler(tied, d, 1);
    }
}

TEST_CASE("an undrawable row is reported") {
  draw greedy;
  greedy.sampling.temperature = 0;
  for (const auto& d : {draw{}, greedy})
    for (const std::uint32_t lanes : {1U, 3U}) {
      CHECK(draw_case(std::vector<float>(40, -INFINITY), d).run(lanes) == -1);
      for (const float bad : {NAN, INFINITY}) {
        std::vector<float> logits(40, 0.5F);
        logits[17] = bad;
        CHECK(draw_case(logits, d).run(lanes) == -1);
      }
    }
}

TEST_CASE("a device's random numbers and exponential match the sampler's") {
  CHECK(gpu::uniform_of(0, 0) == engine::uniform(0, 0));
  CHECK(gpu::uniform_of(0x0123456789ABCDEFULL, 77) == engine::uniform(0x0123456789ABCDEFULL, 77));
  for (float x = 0; x > -90; x -= 0.137F)
    CHECK(std::abs(double{gpu::exp_negative(x)} - std::exp(double{x})) <=
          3e-7 * std::exp(double{x}) + 2e-38);
}
