// The sampler against numbers computed by hand, the generator against its paper's vectors, and
// frequencies against probabilities with fixed seeds.
#include "runtime/engine/philox.hpp"
#include "runtime/engine/sampler.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

using namespace baton;
using namespace baton::engine;

namespace {

constexpr float logits_infinity = std::numeric_limits<float>::infinity();

result<sample> run(std::vector<float> logits, const draw& d) {
  sampler_scratch scratch;
  return draw_token(logits, d, scratch);
}

token_id token_of(std::vector<float> logits, const draw& d) {
  auto s = run(std::move(logits), d);
  REQUIRE_MESSAGE(s.has_value(), s.error().message);
  return s->token;
}

draw greedy() {
  draw d;
  d.sampling.temperature = 0;
  return d;
}

// Counts how often each token is drawn in `draws` draws.
std::vector<int> frequencies(const std::vector<float>& logits, draw d, int draws) {
  std::vector<int> counts(logits.size());
  sampler_scratch scratch;
  for (int i = 0; i < draws; ++i) {
    d.token_index = static_cast<std::uint32_t>(i);
    auto copy = logits;
    auto s = draw_token(copy, d, scratch);
    REQUIRE(s.has_value());
    ++counts[static_cast<std::size_t>(s->token)];
  }
  return counts;
}

// Pearson's statistic over the tokens with some probability.
double chi_square(const std::vector<int>& counts, const std::vector<double>& expected, int draws) {
  double sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double mean = expected[i] * draws;
    if (mean == 0)
      CHECK(counts[i] == 0);
    else
      sum += (counts[i] - mean) * (counts[i] - mean) / mean;
  }
  return sum;
}

std::vector<float> logs(const std::vector<double>& shares) {
  std::vector<float> out;
  for (const double p : shares)
    out.push_back(p > 0 ? static_cast<float>(std::log(p)) : -logits_infinity);
  return out;
}

} // namespace

TEST_CASE("philox gives the known answers of its authors' library") {
  constexpr std::uint32_t ones = 0xffffffff;
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) ==
        philox_counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32({ones, ones, ones, ones}, {ones, ones}) ==
        philox_counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        philox_counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("uniform numbers use the whole seed and index, and stay below one") {
  std::set<double> seen;
  for (const std::uint64_t seed : {0ull, 1ull, 1ull << 32, ~0ull})
    for (const std::uint32_t index : {0u, 1u, 1u << 16, ~0u}) {
      const double u = uniform(seed, index);
      CHECK(u >= 0);
      CHECK(u < 1);
      CHECK(seen.insert(u).second);
    }
}

TEST_CASE("greedy takes the most likely token; the lower id wins ties") {
  CHECK(token_of({1, 3, 2}, greedy()) == 1);
  CHECK(token_of({1, 3, 3, 3}, greedy()) == 1);
  CHECK(token_of({-5, -3, -logits_infinity}, greedy()) == 1);
  std::vector<float> many(49152, -1);
  many[40000] = many[40001] = 2;
  CHECK(token_of(many, greedy()) == 40000);
}

TEST_CASE("greedy does not depend on seed or index") {
  draw d = greedy();
  d.sampling.seed = 99;
  d.token_index = 7;
  CHECK(token_of({1, 3, 2}, d) == 1);
}

TEST_CASE("a bias is added before anything else") {
  draw d = greedy();
  d.sampling.biases = {{0, 2.5f}};
  CHECK(token_of({1, 3, 2}, d) == 0);
  d.sampling.biases = {{1, -100}};
  CHECK(token_of({1, 3, 2}, d) == 2);
}

TEST_CASE("a banned token is never drawn, whatever its bias") {
  draw d = greedy();
  d.sampling.biases = {{1, 100}};
  d.banned = {1};
  CHECK(token_of({1, 3, 2}, d) == 2);
  d.sampling.temperature = 1;
  CHECK(frequencies({1, 30, 2}, d, 200)[1] == 0);
}

TEST_CASE("the repetition penalty divides positive logits and multiplies negative ones") {
  draw d = greedy();
  d.sampling.repetition_penalty = 2;
  d.history = {{1, 1, 0}};
  CHECK(token_of({1.6f, 3, 1}, d) == 0); // 3 / 2 < 1.6
  CHECK(token_of({1.4f, 3, 1}, d) == 1);
  CHECK(token_of({-1.9f, -1, -5}, d) == 0); // -1 * 2 < -1.9
  CHECK(token_of({-2.1f, -1, -5}, d) == 1);
  d.history = {{1, 0, 3}}; // applied once, however often it occurred
  CHECK(token_of({1.4f, 3, 1}, d) == 1);
}

TEST_CASE("presence and frequency penalties look at the output alone") {
  draw d = greedy();
  d.sampling.presence_penalty = 1;
  d.history = {{1, 5, 0}};
  CHECK(token_of({2.5f, 3, 1}, d) == 1); // only in the prompt
  d.history = {{1, 0, 4}};
  CHECK(token_of({2.5f, 3, 1}, d) == 0); // 3 - 1
  CHECK(token_of({1.5f, 3, 1}, d) == 1);
  d.sampling.presence_penalty = 0;
  d.sampling.frequency_penalty = 0.5f;
  CHECK(token_of({1.1f, 3, 0}, d) == 0); // 3 - 4 * 0.5
  CHECK(token_of({0.9f, 3, 0}, d) == 1);
  d.sampling.frequency_penalty = -0.5f;
  CHECK(token_of({4.9f, 3, 0}, d) == 1); // 3 + 2
}

TEST_CASE("draws follow the softmax of the logits") {
  const std::vector<double> shares{0.5, 0.25, 0.125, 0.0625, 0.0625, 0};
  draw d;
  d.sampling.seed = 1234;
  // 99.9 % of true distributions stay below 18.47 (4 degrees of freedom).
  CHECK(chi_square(frequencies(logs(shares), d, 20000), shares, 20000) < 18.47);
}

TEST_CASE("draws over a large vocabulary follow the softmax across runs of the scan") {
  // 1000 tokens, the odd ones three times as likely.
  std::vector<float> logits(1000);
  std::vector<double> grouped(10);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = i % 2 ? std::log(3.0f) : 0;
    grouped[i / 100] += (i % 2 ? 3.0 : 1.0) / 2000;
  }
  draw d;
  d.sampling.seed = 5;
  const auto counts = frequencies(logits, d, 10000);
  std::vector<int> groups(10);
  int odd = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    groups[i / 100] += counts[i];
    odd += i % 2 ? counts[i] : 0;
  }
  CHECK(chi_square(groups, grouped, 10000) < 27.88);             // 9 degrees, 99.9 %
  CHECK(std::abs(odd - 7500) < 3.3 * std::sqrt(10000 * 0.1875)); // 99.9 %
}

TEST_CASE("temperature sharpens and flattens by its formula") {
  // p ^ (1 / T), normalised: T = 0.5 squares the shares.
  const std::vector<double> shares{0.6, 0.3, 0.1};
  draw d;
  d.sampling.seed = 77;
  d.sampling.temperature = 0.5f;
  const double total = 0.36 + 0.09 + 0.01;
  CHECK(chi_square(frequencies(logs(shares), d, 10000), {0.36 / total, 0.09 / total, 0.01 / total},
                   10000) < 13.82);
  d.sampling.temperature = 1e-30f;
  CHECK(frequencies({1, 2, 1.5f}, d, 100)[1] == 100);
}

TEST_CASE("top_k keeps exactly k tokens, lower ids first among equals") {
  draw d;
  d.sampling.seed = 3;
  d.sampling.top_k = 2;
  const auto counts = frequencies({1, 1, 1, 1.0f, 0.5f}, d, 2000);
  CHECK(chi_square(counts, {0.5, 0.5, 0, 0, 0}, 2000) < 10.83);
  d.sampling.top_k = 1;
  CHECK(frequencies({1, 4, 4, 2}, d, 100)[1] == 100);
  d.sampling.top_k = 5;
  CHECK(chi_square(frequencies({0, 0, 0}, d, 3000), {1.0 / 3, 1.0 / 3, 1.0 / 3}, 3000) < 13.82);
}

TEST_CASE("a large top_k, which selects without a heap, keeps the same tokens") {
  std::vector<float> logits(2000);
  for (std::size_t i = 0; i < logits.size(); ++i)
    logits[i] = static_cast<float>((i * 7919) % 2000) * 1e-3f; // a permutation
  draw d;
  for (const int k : {255, 256, 257, 1000}) {
    d.sampling.top_k = k;
    const auto counts = frequencies(logits, d, 3000);
    for (std::size_t i = 0; i < counts.size(); ++i)
      if ((i * 7919) % 2000 < static_cast<std::size_t>(2000 - k))
        CHECK(counts[i] == 0);
  }
}

TEST_CASE("top_p keeps the fewest tokens whose share reaches p") {
  const std::vector<double> shares{0.1, 0.4, 0.2, 0.3};
  draw d;
  d.sampling.seed = 11;
  struct row {
    float top_p;
    std::vector<double> expected;
  };
  const row rows[] = {{0.39f, {0, 1, 0, 0}},
                      {0.41f, {0, 4.0 / 7, 0, 3.0 / 7}},
                      {0.69f, {0, 4.0 / 7, 0, 3.0 / 7}},
                      {0.71f, {0, 4.0 / 9, 2.0 / 9, 3.0 / 9}},
                      {0.95f, {0.1, 0.4, 0.2, 0.3}},
                      {1e-9f, {0, 1, 0, 0}}};
  for (const auto& r : rows) {
    CAPTURE(r.top_p);
    d.sampling.top_p = r.top_p;
    CHECK(chi_square(frequencies(logs(shares), d, 5000), r.expected, 5000) < 16.27);
  }
}

TEST_CASE("top_p over equal tokens needs them all") {
  draw d;
  d.sampling.top_p = 0.9999f;
  const auto counts = frequencies(std::vector<float>(100, 1.0f), d, 10000);
  CHECK(chi_square(counts, std::vector<double>(100, 0.01), 10000) < 148.2);
}

TEST_CASE("top_p works on the shares that top_k left") {
  // top_k leaves 0.4 and 0.3, that is 4/7 and 3/7: p = 0.5 keeps the first, 0.6 both.
  const auto logits = logs({0.1, 0.4, 0.2, 0.3});
  draw d;
  d.sampling.top_k = 2;
  d.sampling.top_p = 0.5f;
  CHECK(frequencies(logits, d, 200)[1] == 200);
  d.sampling.top_p = 0.6f;
  CHECK(chi_square(frequencies(logits, d, 5000), {0, 4.0 / 7, 0, 3.0 / 7}, 5000) < 10.83);
}

TEST_CASE("min_p removes tokens below its share of the most likely one") {
  const std::vector<double> shares{0.1, 0.4, 0.2, 0.3};
  draw d;
  d.sampling.seed = 4;
  struct row {
    float min_p;
    std::int32_t top_k;
    std::vector<double> expected;
  };
  const row rows[] = {
      {0.2f, 0, {0.1, 0.4, 0.2, 0.3}},           {0.3f, 0, {0, 4.0 / 9, 2.0 / 9, 3.0 / 9}},
      {0.6f, 0, {0, 4.0 / 7, 0, 3.0 / 7}},       {1.0f, 0, {0, 1, 0, 0}},
      {0.3f, 4, {0, 4.0 / 9, 2.0 / 9, 3.0 / 9}}, {0.6f, 3, {0, 4.0 / 7, 0, 3.0 / 7}}};
  for (const auto& r : rows) {
    CAPTURE(r.min_p);
    d.sampling.min_p = r.min_p;
    d.sampling.top_k = r.top_k;
    CHECK(chi_square(frequencies(logs(shares), d, 5000), r.expected, 5000) < 16.27);
  }
}

TEST_CASE("logprobs are of the raw logits, whatever later steps do") {
  draw d = greedy();
  d.sampling.logprobs = 2;
  d.banned = {1};
  d.sampling.biases = {{0, 50}};
  auto s = run(logs({0.125, 0.5, 0.25, 0.125}), d);
  REQUIRE(s.has_value());
  CHECK(s->token == 0);
  CHECK(s->logprob == doctest::Approx(std::log(0.125)).epsilon(1e-6));
  REQUIRE(s->top.size() == 2);
  CHECK(s->top[0].token == 1);
  CHECK(s->top[0].logprob == doctest::Approx(std::log(0.5)).epsilon(1e-6));
  CHECK(s->top[1].token == 2);
  CHECK(s->top[1].logprob == doctest::Approx(std::log(0.25)).epsilon(1e-6));
}

TEST_CASE("logprobs of the token alone, of none, and of more than the vocabulary") {
  draw d = greedy();
  auto s = run(logs({0.25, 0.75}), d);
  REQUIRE(s.has_value());
  CHECK(s->logprob == 0);
  CHECK(s->top.empty());
  d.sampling.logprobs = 0;
  s = run(logs({0.25, 0.75}), d);
  REQUIRE(s.has_value());
  CHECK(s->logprob == doctest::Approx(std::log(0.75)).epsilon(1e-6));
  CHECK(s->top.empty());
  d.sampling.logprobs = 20;
  s = run(logs({0.25, 0.75}), d);
  REQUIRE(s.has_value());
  CHECK(s->top.size() == 2);
}

TEST_CASE("logprobs agree with a plain softmax in double precision over a real vocabulary size") {
  std::vector<float> logits(49152);
  for (std::size_t i = 0; i < logits.size(); ++i)
    logits[i] = static_cast<float>(uniform(1, static_cast<std::uint32_t>(i)) * 40 - 30);
  double total = 0;
  for (const float x : logits)
    total += std::exp(static_cast<double>(x));
  draw d;
  d.sampling.logprobs = 5;
  auto s = run(logits, d);
  REQUIRE(s.has_value());
  for (const auto& t : s->top)
    CHECK(t.logprob ==
          doctest::Approx(static_cast<double>(logits[static_cast<std::size_t>(t.token)]) -
                          std::log(total))
              .epsilon(1e-6));
}

TEST_CASE("the same draw gives the same token, with a fresh or a used scratch") {
  std::vector<float> logits(5000);
  for (std::size_t i = 0; i < logits.size(); ++i)
    logits[i] = static_cast<float>(uniform(2, static_cast<std::uint32_t>(i)) * 5);
  sampler_scratch used;
  std::map<std::uint32_t, token_id> drawn;
  for (std::uint32_t round = 0; round < 2; ++round)
    for (std::uint32_t index = 0; index < 40; ++index) {
      draw d;
      d.token_index = index;
      d.sampling.seed = 8;
      d.sampling.top_k = index % 3 == 0 ? 50 : 0;
      d.sampling.top_p = index % 2 == 0 ? 0.8f : 1;
      auto copy = logits;
      auto s = draw_token(copy, d, used);
      REQUIRE(s.has_value());
      CHECK(s->token == token_of(logits, d));
      CHECK(drawn.try_emplace(index, s->token).first->second == s->token);
    }
  std::set<token_id> different;
  for (const auto& [index, token] : drawn)
    different.insert(token);
  CHECK(different.size() > 20);
}

TEST_CASE("logits that are not numbers are an error, never a token") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> late(100, 0);
  late[97] = nan;
  for (const auto& logits :
       {std::vector<float>{1, nan, 2}, std::vector<float>{1, logits_infinity, 2},
        std::vector<float>{-logits_infinity, -logits_infinity}, std::vector<float>{}, late})
    for (const float temperature : {0.0f, 1.0f})
      for (const std::int32_t logprobs : {-1, 1}) {
        draw d;
        d.sampling.temperature = temperature;
        d.sampling.logprobs = logprobs;
        auto s = run(logits, d);
        REQUIRE_FALSE(s.has_value());
        CHECK(s.error().code == errc::internal);
      }
}

TEST_CASE("banning every token is an error") {
  draw d;
  d.banned = {0, 1};
  CHECK_FALSE(run({1, 2}, d).has_value());
}

TEST_CASE("a draw with a parameter out of range is rejected by name") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<std::pair<std::string, draw>> wrong(17);
  const auto name = [&](std::size_t i, const char* param) -> draw& {
    wrong[i].first = param;
    return wrong[i].second;
  };
  name(0, "temperature").sampling.temperature = -1;
  name(1, "temperature").sampling.temperature = nan;
  name(2, "top_k").sampling.top_k = -1;
  name(3, "top_p").sampling.top_p = 0;
  name(4, "top_p").sampling.top_p = nan;
  name(5, "min_p").sampling.min_p = 1.5f;
  name(6, "repetition_penalty").sampling.repetition_penalty = 0;
  name(7, "presence_penalty").sampling.presence_penalty = logits_infinity;
  name(8, "frequency_penalty").sampling.frequency_penalty = nan;
  name(9, "logprobs").sampling.logprobs = -2;
  name(10, "logit_bias").sampling.biases = {{3, 1}};
  name(11, "logit_bias").sampling.biases = {{0, nan}};
  name(12, "stop_token_ids").banned = {-1};
  name(13, "history").history = {{3, 1, 1}};
  name(14, "typical_p").sampling.typical_p = 0;
  name(15, "watermark_gamma").sampling.watermark_gamma = nan;
  name(16, "watermark_delta").sampling.watermark_delta = -1;
  for (const auto& [param, d] : wrong) {
    CAPTURE(param);
    auto s = run({1, 2, 3}, d);
    REQUIRE_FALSE(s.has_value());
    CHECK(s.error().code == errc::invalid_value);
    CHECK(s.error().param == param);
  }
}

TEST_CASE("a mask allows the tokens it contains, even if others are more likely") {
  std::vector<float> logits(200, 0.0f);
  logits[3] = 5;
  logits[130] = 4;
  logits[199] = 3;
  sampler_scratch scratch;
  const auto drawn = [&](std::vector<std::uint64_t> mask, const draw& d) {
    auto copy = logits;
    auto s = draw_token(copy, d, scratch, mask);
    REQUIRE_MESSAGE(s.has_value(), s.error().message);
    return s->token;
  };
  const std::uint64_t all = ~std::uint64_t{0};
  CHECK(drawn({all, all, all, all}, greedy()) == 3);
  CHECK(drawn({all - 8, all, all, all}, greedy()) == 130);
  CHECK(drawn({0, 0, 0, 0xFF}, greedy()) == 199);
  CHECK(drawn({all - 8, all}, greedy()) == 0); // none beyond the last word of its bits
  CHECK(drawn({0, 0, std::uint64_t{1} << 40}, greedy()) == 168);
  draw warm;
  for (std::uint32_t i = 0; i < 200; ++i) {
    warm.token_index = i;
    const auto token = drawn({0b1010, 0, 0b100}, warm);
    CHECK((token == 1 || token == 3 || token == 130));
  }
  auto copy = logits;
  CHECK_FALSE(draw_token(copy, greedy(), scratch, std::vector<std::uint64_t>{0, 0, 0, 0}));
}

TEST_CASE("a banned end token is drawn where a mask allows nothing else") {
  const std::vector<float> logits{0, 1, 5, 4};
  sampler_scratch scratch;
  auto d = greedy();
  d.banned = {2, 3, 2};
  const auto drawn = [&](std::uint64_t mask) {
    auto copy = logits;
    const std::vector<std::uint64_t> words{mask};
    auto s = draw_token(copy, d, scratch, words);
    REQUIRE(s.has_value());
    return s->token;
  };
  CHECK(drawn(0b1111) == 1);
  CHECK(drawn(0b1101) == 0);
  CHECK(drawn(0b1100) == 2);
  CHECK(drawn(0b1000) == 3);
}

TEST_CASE("logprobs are of the raw logits, masked or not") {
  const std::vector<float> logits{1, 2, 3, 4};
  sampler_scratch scratch;
  auto d = greedy();
  d.sampling.logprobs = 2;
  auto plain = logits, masked = logits;
  const auto first = draw_token(plain, d, scratch);
  const std::vector<std::uint64_t> words{0b0011};
  const auto second = draw_token(masked, d, scratch, words);
  REQUIRE(first);
  REQUIRE(second);
  CHECK(second->token == 1);
  CHECK(second->top == first->top);
  CHECK(second->logprob == doctest::Approx(first->logprob - 2));
}
