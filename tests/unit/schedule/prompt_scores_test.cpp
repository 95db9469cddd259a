// Goal: a prompt with scores is computed row by row, without the prefix cache. Its scores come
// once, with the first token or, without tokens, at the end; it restarts whenever its KV is lost.
// Method: the test answers the steps in place of an engine. The score of a token is minus its
// position.
#include "tests/unit/schedule/fixture.hpp"

using namespace baton;
using namespace baton::schedule;

namespace {

struct scores_fixture : fixture {
  using fixture::fixture;

  ticket_id score(std::size_t prompt, std::uint32_t max_tokens = 2) {
    const auto ticket = grant();
    auto a = request(ticket, prompt, max_tokens);
    for (std::size_t i = 0; i < prompt; ++i)
      a.prompt_ids[i] = static_cast<token_id>(10 + i);
    a.terms.sampling.prompt_logprobs = 3;
    s.admit(a);
    s.check_integrity();
    return ticket;
  }
  static sampled scores_of(const micro_batch& batch) {
    sampled step{batch.batch, batch.epoch, {}, {}, std::nullopt};
    step.samples.resize(batch.draws.size(), {5, 0, {}});
    std::size_t first = 0, slice = 0;
    for (const pool& p : batch.pools) {
      for (; slice < p.slice; ++slice)
        first += batch.slices[slice].rows;
      const auto& of = batch.slices[p.slice];
      pooled result;
      for (std::uint32_t r = 0; r < of.rows; ++r)
        result.scores.push_back({r + 1 < of.rows ? batch.tokens[first + r + 1] : p.next,
                                 -static_cast<float>(of.position + r + 1),
                                 {}});
      step.pooled.push_back(std::move(result));
    }
    return step;
  }
  void answer_scores(const micro_batch& batch) {
    s.on_sampled(scores_of(batch));
    s.check_integrity();
  }
  void run_scores() {
    while (auto batch = s.next())
      answer_scores(*batch);
  }
  // Checks one ticket: only its first message has the scores.
  void check_scores(std::size_t prompt, std::uint32_t tokens) {
    const auto out = s.take();
    REQUIRE(out.refusals.empty());
    REQUIRE(out.tokens.size() == std::max<std::size_t>(tokens, 1));
    for (const auto& m : out.tokens)
      CHECK(m.prompt_scores.empty() != m.begins);
    const auto& scores = out.tokens[0].prompt_scores;
    REQUIRE(scores.size() == prompt);
    for (std::size_t i = 0; i < prompt; ++i) {
      CHECK(scores[i].token == static_cast<token_id>(10 + i));
      CHECK(scores[i].logprob == -static_cast<float>(i));
    }
    CHECK(out.tokens.back().finish == finish::length);
    CHECK(out.tokens.back().tokens_total == tokens);
  }
};

} // namespace

TEST_CASE("all prompt rows but the last are scored, in chunks, and the last one draws") {
  scores_fixture f;
  f.score(long_prompt);
  for (const std::uint32_t position : {0U, 16U, 32U}) {
    const auto batch = f.next();
    CHECK(batch.draws.empty());
    REQUIRE(batch.pools.size() == 1);
    CHECK(batch.pools[0].how == pooling::scores);
    CHECK(batch.pools[0].top == 3);
    CHECK(batch.slices[0].position == position);
    const auto end = position + batch.slices[0].rows;
    CHECK(batch.pools[0].next == static_cast<token_id>(10 + end));
    CHECK(end == std::min<std::uint32_t>(position + 16, long_prompt - 1));
    f.answer_scores(batch);
    CHECK(f.s.take().tokens.empty());
  }
  const auto last = f.next();
  CHECK(last.rows() == 1);
  CHECK(last.pools.empty());
  CHECK(last.draws.size() == 1);
  f.answer_scores(last);
  f.run_scores();
  f.check_scores(long_prompt, 2);
  f.check_at_rest();
}

TEST_CASE("without tokens, the scores are the end") {
  for (const std::size_t prompt : {1u, 2u, 17u, 40u}) {
    scores_fixture f;
    f.score(prompt, 0);
    std::size_t draws = 0;
    while (auto batch = f.s.next()) {
      draws += batch->draws.size();
      f.answer_scores(*batch);
    }
    CHECK(draws == 0);
    f.check_scores(prompt, 0);
    f.check_at_rest();
  }
}

TEST_CASE("a prompt of one token has nothing to score, and draws") {
  scores_fixture f;
  f.score(1);
  CHECK(f.next().pools.empty());
}

TEST_CASE("zero tokens require a scored prompt") {
  scores_fixture f;
  f.s.admit(f.request(f.grant(), 5, 0));
  const auto out = f.s.take();
  REQUIRE(out.refusals.size() == 1);
  CHECK(out.refusals[0].message.reason.param == "max_tokens");
}

TEST_CASE("a prefix computed by another request is recomputed") {
  auto config = small_config();
  config.enable_prefix_caching = true;
  scores_fixture f(config);
  for (int i = 0; i < 2; ++i) {
    f.score(20);
    f.run_scores();
    f.check_scores(20, 2);
  }
  CHECK(f.s.load().prefix_cache_queries == 0);
}

TEST_CASE("a new epoch continues it where KV was kept, and restarts it where KV was lost") {
  for (const auto kv : {kv_fate::kept, kv_fate::lost}) {
    scores_fixture f;
    f.score(long_prompt);
    f.answer_scores(f.next());
    const auto lost = f.next(); // in flight when the epoch closes
    f.s.close_epoch(f.now);
    f.s.open_epoch({2}, small_shape, loss::link, kv);
    f.s.on_sampled(f.scores_of(lost)); // stale by now
    const auto again = f.next();
    CHECK(again.slices[0].position == (kv == kv_fate::kept ? 16 : 0));
    f.answer_scores(again);
    f.run_scores();
    f.check_scores(long_prompt, 2);
    f.check_at_rest();
  }
}

TEST_CASE("scores that arrive after their epoch count, once") {
  scores_fixture f;
  f.score(10, 0);
  const auto batch = f.next();
  f.s.close_epoch(f.now);
  f.answer_scores(batch);
  f.check_scores(10, 0);
  f.s.open_epoch({2}, small_shape);
  f.answer_scores(batch);
  CHECK(f.s.take().tokens.empty());
  f.check_at_rest();
}

TEST_CASE("a preempted prompt is scored again, and uses no swap space") {
  auto config = small_config();
  config.prefill_chunk = 2;
  scores_fixture f(config, {.stages = 1, .blocks = 14, .block_positions = 4, .swap_blocks = 14});
  f.start(15, 30); // grows into the scored one's blocks
  const auto younger = f.score(29, 0);
  std::vector<tokens> recovered;
  while (auto batch = f.s.next()) {
    CHECK(batch->copies.empty());
    f.answer_scores(*batch);
    for (auto& m : f.s.take().tokens)
      if (m.ticket == younger)
        recovered.push_back(std::move(m));
  }
  CHECK(f.s.load().preemptions == 1);
  REQUIRE(recovered.size() == 1);
  CHECK(recovered[0].prompt_scores.size() == 29);
  CHECK(recovered[0].prompt_scores.back().logprob == -28);
  f.check_at_rest();
}

TEST_CASE("another head scores a recovered request again, beside its delivered tokens") {
  scores_fixture f;
  const auto ticket = f.score(5, 4);
  f.answer_scores(f.next());
  f.answer_scores(f.next());
  resume to;
  to.ticket = ticket;
  to.from.resize(1);
  to.from[0].index = 1;
  auto recovered = f.s.rebuild_request(to, f.now);
  REQUIRE(recovered);
  CHECK(recovered->submit.terms.sampling.prompt_logprobs == 3);
  scores_fixture next;
  auto a = next.request(next.grant(), 5, 4);
  a.prompt_ids = {10, 11, 12, 13, 14};
  a.terms.sampling.prompt_logprobs = 3;
  a.delivered = recovered->submit.delivered;
  next.s.admit(a);
  next.run_scores();
  const auto out = next.s.take();
  REQUIRE(out.tokens.size() == 3);
  CHECK(out.tokens[0].delivered.size() == 1);
  CHECK(out.tokens[0].prompt_scores.size() == 5);
  next.check_at_rest();
}

TEST_CASE("a step with too few scores, or unknown tokens, fails") {
  for (const bool is_unknown : {false, true}) {
    scores_fixture f;
    f.score(5);
    auto step = f.scores_of(f.next());
    if (is_unknown)
      step.pooled[0].scores[1].token = 100;
    else
      step.pooled[0].scores.pop_back();
    f.s.on_sampled(step);
    const auto out = f.s.take();
    REQUIRE(out.refusals.size() == 1);
    CHECK(out.refusals[0].message.reason.code == errc::internal);
    f.check_at_rest();
  }
}
