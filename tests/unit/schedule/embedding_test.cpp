// Goal: a request for an embedding draws no tokens, ends once with the embedding of its whole
// prompt, and restarts whenever its KV is lost. Method: the test answers the steps in place of an
// engine. Each pool is the sum of its rows' positions, counted from 1.
#include "schema/limits.hpp"
#include "tests/unit/schedule/fixture.hpp"

#include <cmath>

using namespace baton;
using namespace baton::schedule;

namespace {

struct embedding_fixture : fixture {
  using fixture::fixture;

  ticket_id embed(std::size_t prompt) {
    const auto ticket = grant();
    auto a = request(ticket, prompt, 1);
    a.terms.wants_embedding = true;
    s.admit(a);
    s.check_integrity();
    return ticket;
  }
  static sampled sums_of(const micro_batch& batch) {
    sampled step{batch.batch, batch.epoch, {}, {}, std::nullopt};
    step.samples.resize(batch.draws.size());
    for (auto& drawn : step.samples)
      drawn.token = 5;
    for (const pool& p : batch.pools) {
      const slice& of = batch.slices[p.slice];
      float sum = p.before.empty() ? 0 : p.before[0];
      for (std::uint32_t r = 0; r < of.rows; ++r)
        sum += static_cast<float>(of.position + r + 1);
      step.pooled.push_back({{sum}});
    }
    return step;
  }
  void answer_sums(const micro_batch& batch) {
    s.on_sampled(sums_of(batch));
    s.check_integrity();
  }
  // The one message at its end.
  tokens end() {
    auto out = s.take();
    REQUIRE(out.refusals.empty());
    REQUIRE(out.tokens.size() == 1);
    CHECK((out.tokens[0].begins && out.tokens[0].finish != finish::none));
    return out.tokens[0];
  }
  void check_is_sum(const tokens& m, std::size_t prompt) {
    CHECK(m.finish == finish::stop);
    CHECK(m.samples.empty());
    CHECK(m.tokens_total == 0);
    CHECK(m.prompt_tokens == prompt);
    CHECK(m.embedding == std::vector<float>{static_cast<float>(prompt * (prompt + 1)) / 2});
  }
};

} // namespace

TEST_CASE("the chunks of a prompt run one after the other, and the end has the embedding") {
  embedding_fixture f;
  f.embed(long_prompt);
  for (const std::uint32_t position : {0U, 16U, 32U}) {
    const auto batch = f.next();
    CHECK(batch.draws.empty());
    REQUIRE(batch.pools.size() == 1);
    CHECK(batch.slices[0].position == position);
    CHECK_FALSE(batch.slices[0].samples);
    CHECK(batch.pools[0].how == pooling::mean);
    CHECK(batch.pools[0].is_last == (position == 32));
    CHECK(batch.pools[0].before.empty() == (position == 0));
    CHECK_FALSE(f.s.next().has_value()); // the next one continues from this one's result
    CHECK(f.s.take().tokens.empty());
    f.answer_sums(batch);
  }
  f.check_is_sum(f.end(), long_prompt);
  f.check_at_rest();
}

TEST_CASE("a last chunk of one row is not a decode row") {
  embedding_fixture f;
  f.embed(17);
  f.answer_sums(f.next());
  const auto last = f.next();
  CHECK(last.rows() == 1);
  CHECK(last.draws.empty());
  f.answer_sums(last);
  f.check_is_sum(f.end(), 17);
  f.check_at_rest();
}

TEST_CASE("embeddings run beside decodes, and each request gets its own") {
  embedding_fixture f;
  f.start(5, 3);
  f.answer(f.next());
  const auto first = f.embed(7), second = f.embed(4);
  const auto batch = f.next();
  CHECK(batch.slices.size() == 3);
  CHECK(batch.draws.size() == 1);
  REQUIRE(batch.pools.size() == 2);
  CHECK((batch.pools[0].slice == 1 && batch.pools[1].slice == 2));
  f.s.take();
  f.answer_sums(batch);
  std::size_t ends = 0;
  for (const auto& m : f.s.take().tokens) {
    if (m.ticket == first)
      f.check_is_sum(m, 7);
    else if (m.ticket == second)
      f.check_is_sum(m, 4);
    ends += m.ticket == first || m.ticket == second;
  }
  CHECK(ends == 2);
}

TEST_CASE("a preempted embedding restarts, and uses no swap space") {
  auto config = small_config();
  config.prefill_chunk = 2;
  embedding_fixture f(config, {.stages = 1, .blocks = 14, .block_positions = 4, .swap_blocks = 14});
  f.start(15, 30); // grows into the embedding's blocks
  const auto younger = f.embed(29);
  std::optional<tokens> end;
  std::size_t beginnings = 0;
  while (auto batch = f.s.next()) {
    CHECK(batch->copies.empty());
    for (const pool& p : batch->pools)
      beginnings += batch->slices[p.slice].position == 0 ? 1 : 0;
    f.answer_sums(*batch);
    for (auto& m : f.s.take().tokens)
      if (m.ticket == younger)
        end = m;
  }
  CHECK(f.s.load().preemptions == 1);
  CHECK(beginnings == 2);
  REQUIRE(end);
  f.check_is_sum(*end, 29);
  f.check_at_rest();
}

TEST_CASE("a prefix computed by another request is recomputed, with the same result") {
  auto config = small_config();
  config.enable_prefix_caching = true;
  embedding_fixture f(config);
  f.start(20, 1);
  f.run_all();
  f.s.take();
  f.embed(20);
  const auto batch = f.next();
  CHECK(batch.slices[0].position == 0);
  f.answer_sums(batch);
  f.answer_sums(f.next());
  const auto m = f.end();
  f.check_is_sum(m, 20);
  CHECK(m.cached_tokens == 0);
}

TEST_CASE("a new epoch continues it where KV was kept, and restarts it where KV was lost") {
  for (const auto kv : {kv_fate::kept, kv_fate::lost}) {
    embedding_fixture f;
    f.embed(long_prompt);
    f.answer_sums(f.next());
    const auto lost = f.next(); // in flight when the epoch closes
    f.s.close_epoch(f.now);
    f.s.open_epoch({2}, small_shape, loss::link, kv);
    f.s.on_sampled(f.sums_of(lost)); // stale by now
    const auto again = f.next();
    CHECK(again.slices[0].position == (kv == kv_fate::kept ? 16 : 0));
    CHECK(again.pools[0].before.empty() == (kv == kv_fate::lost));
    f.answer_sums(again);
    while (auto batch = f.s.next())
      f.answer_sums(*batch);
    f.check_is_sum(f.end(), long_prompt);
    f.check_at_rest();
  }
}

TEST_CASE("a last chunk whose result arrives after its epoch ends the request, once") {
  embedding_fixture f;
  f.embed(10);
  const auto batch = f.next();
  f.s.close_epoch(f.now);
  f.answer_sums(batch);
  f.check_is_sum(f.end(), 10);
  f.s.open_epoch({2}, small_shape);
  CHECK_FALSE(f.s.next().has_value());
  f.answer_sums(batch);
  CHECK(f.s.take().tokens.empty());
  f.check_at_rest();
}

TEST_CASE("a step with a missing or non-finite embedding fails") {
  const std::vector<std::vector<pooled>> wrong = {
      {}, {{{1}}, {{1}}}, {{{std::nanf("")}}}, {{{INFINITY}}}};
  for (const auto& result : wrong) {
    embedding_fixture f;
    f.embed(5);
    auto step = f.sums_of(f.next());
    step.pooled = result;
    f.s.on_sampled(step);
    const auto out = f.s.take();
    REQUIRE(out.refusals.size() == 1); // nothing of it was delivered
    CHECK(out.refusals[0].message.reason.code == errc::internal);
    f.check_at_rest();
  }
}

TEST_CASE("a pipeline whose engines do not pool refuses embeddings by name") {
  auto shape = small_shape;
  shape.pools = false;
  SUBCASE("at arrival") {
    embedding_fixture f(small_config(), shape);
    f.embed(5);
    const auto out = f.s.take();
    REQUIRE(out.refusals.size() == 1);
    CHECK(out.refusals[0].message.reason.code == errc::unsupported_parameter);
    f.start();
    CHECK(f.s.next().has_value()); // other requests run
  }
  SUBCASE("when it opens") {
    embedding_fixture f;
    f.embed(long_prompt);
    f.answer_sums(f.next());
    f.s.close_epoch(f.now);
    f.s.open_epoch({2}, shape);
    const auto out = f.s.take();
    REQUIRE(out.refusals.size() == 1);
    CHECK(out.refusals[0].message.reason.code == errc::unsupported_parameter);
    f.check_at_rest();
  }
}

TEST_CASE("a prompt has one embedding") {
  embedding_fixture f;
  const auto ticket = f.grant(2);
  auto a = f.request(ticket);
  a.terms.choices = 2;
  a.terms.wants_embedding = true;
  f.s.admit(a);
  const auto out = f.s.take();
  REQUIRE(out.refusals.size() == 1);
  CHECK(out.refusals[0].message.reason.param == "n");
}

TEST_CASE("a micro-batch has no more pools than a message can carry") {
  auto config = small_config();
  config.max_num_seqs = config.max_num_batched_tokens = config.prefill_chunk = 400;
  config.max_num_queued_reqs = 400;
  embedding_fixture f(config, {.stages = 1, .blocks = 1000, .block_positions = 4});
  for (int i = 0; i < 300; ++i)
    f.embed(1);
  const auto batch = f.next();
  CHECK(batch.pools.size() == limits::pools_max);
  f.answer_sums(batch);
  CHECK(f.next().pools.size() == 300 - limits::pools_max);
}

TEST_CASE("a request that is recovered at another head still asks for an embedding") {
  embedding_fixture f;
  const auto ticket = f.embed(5);
  resume to;
  to.ticket = ticket;
  to.from.resize(1);
  const auto recovered = f.s.rebuild_request(to, f.now);
  REQUIRE(recovered);
  CHECK(recovered->submit.terms.wants_embedding);
}
