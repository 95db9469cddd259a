// Goal: a prompt's tokens get the logprobs that a draw would report, for every cut, and batches
// that would score something else are rejected. Method: draws of the same logits; the toy engine
// against its oracle; single changes to a valid batch.
#include "runtime/engine/prompt_scores.hpp"
#include "tests/unit/engine/toy_stages.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

using namespace baton;
using namespace baton::engine;

namespace {

constexpr float scores_infinity = std::numeric_limits<float>::infinity();

// The last two scored rows of the first prompt, and three rows of the second.
micro_batch good_scoring() {
  micro_batch b;
  b.slices = {
      {{{1}, 0}, 4, 2, false, {0, 1}}, {{{3}, 0}, 0, 1, true, {3}}, {{{2}, 0}, 0, 3, false, {2}}};
  b.tokens = {1, 2, 9, 3, 4, 5};
  b.draws.resize(1);
  b.pools = {{0, pooling::scores, false, {}, 7, 2}, {2, pooling::scores, false, {}, 6, 0}};
  return b;
}

// In chunks of the given size, beside a row that decodes, through all stages.
std::vector<sample> scores_of(const toy_model& model, const std::vector<token_id>& ids,
                              std::size_t chunk) {
  toy_stages all(model);
  std::vector<sample> scores{{ids[0], 0, {}}};
  for (std::size_t at = 0; at + 1 < ids.size(); at += chunk) {
    const auto end = std::min(at + chunk, ids.size() - 1);
    const auto found = all.run(ids, at, end, {0, pooling::scores, false, {}, ids[end], 2});
    CHECK(found.values.empty());
    scores.insert(scores.end(), found.scores.begin(), found.scores.end());
  }
  return scores;
}

} // namespace

TEST_CASE("a token's score equals the logprobs that a draw reports") {
  const std::vector<float> logits{0.5f, 3, -2, 3, 1, -scores_infinity};
  sampler_scratch scratch;
  draw d;
  d.sampling.temperature = 0;
  d.sampling.logprobs = 3;
  auto copy = logits;
  const auto drawn = draw_token(copy, d, scratch);
  REQUIRE(drawn);
  CHECK(*score_token(logits, drawn->token, 3, scratch) == *drawn);
  double total = 0;
  for (const float l : logits)
    total += std::exp(double{l});
  for (token_id t = 0; t < 5; ++t) {
    const auto scored = score_token(logits, t, 0, scratch);
    REQUIRE(scored);
    CHECK(scored->top.empty());
    CHECK(double{scored->logprob} ==
          doctest::Approx(double{logits[static_cast<std::size_t>(t)]} - std::log(total)));
  }
  CHECK(score_token(logits, 5, 0, scratch)->logprob == -scores_infinity);
}

TEST_CASE("logits that are not numbers score nothing") {
  sampler_scratch scratch;
  for (const float bad : {std::nanf(""), scores_infinity})
    CHECK_FALSE(score_token(std::vector<float>{1, bad, 2}, 0, 0, scratch).has_value());
  CHECK_FALSE(score_token(std::vector<float>(3, -scores_infinity), 0, 0, scratch).has_value());
}

TEST_CASE("each row of a pool is scored by the next token, others are not") {
  const auto rows = scored_rows(good_scoring());
  REQUIRE(rows.size() == 5);
  const std::vector<std::uint32_t> pools{0, 0, 1, 1, 1}, row_indices{0, 1, 3, 4, 5};
  const std::vector<token_id> behind{2, 7, 4, 5, 6};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CHECK(rows[i].pool == pools[i]);
    CHECK(rows[i].row == row_indices[i]);
    CHECK(rows[i].token == behind[i]);
  }
  auto embedding = good_scoring();
  embedding.pools[0].how = pooling::last;
  CHECK(scored_rows(embedding).size() == 3);
}

TEST_CASE("the toy's scores match the oracle for any stages, chunks and batch") {
  const std::vector<token_id> ids{3, 1, 4, 1, 5, 9, 2, 6, 5, 3};
  for (const stage_index stages : {1U, 3U}) {
    const toy_model model{.seed = 5, .layers = stages};
    const auto expected = toy_scores(model, ids, 2);
    REQUIRE(expected.size() == ids.size());
    for (const std::size_t chunk : {1U, 3U, 10U})
      CHECK(scores_of(model, ids, chunk) == expected);
  }
}

TEST_CASE("scores that contradict their batch are rejected") {
  capacity limits{.blocks = 8,
                  .block_positions = 4,
                  .rows_max = 16,
                  .hidden_size = 4,
                  .vocabulary_size = 100,
                  .max_model_len = 20,
                  .device = "test",
                  .pools = true,
                  .scores = true};
  REQUIRE(validate(good_scoring(), {}, limits, true).has_value());
  const std::vector<std::function<void(micro_batch&)>> changes = {
      [](auto& b) { b.pools[0].next = 100; },
      [](auto& b) { b.pools[0].next = -1; },
      [](auto& b) { b.pools[1].top = 101; },
      [](auto& b) { b.pools[1].is_last = true; },
      [](auto& b) {
        b.pools[0].before = {1, 2, 3, 4};
      },
      [](auto& b) { b.pools[1].slice = 1; },
  };
  for (const auto& change : changes) {
    auto b = good_scoring();
    change(b);
    const auto refused = validate(b, {}, limits, true);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == errc::invalid_value);
  }
  limits.scores = false;
  const auto refused = validate(good_scoring(), {}, limits, true);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == errc::unsupported_parameter);
  CHECK(refused.error().param == "prompt_logprobs");
}
