// The request to blame for the death of a shard: those in flight run alone, until cleared or
// convicted.
#include "tests/unit/schedule/fixture.hpp"

#include <set>

using namespace baton;
using namespace baton::schedule;

TEST_CASE("a sequence that ends shards at the same step is quarantined, alone") {
  auto kv = kv_fate::lost;
  int deaths_max = 2; // with others, then alone
  SUBCASE("they crash") {}
  SUBCASE("they are killed") {
    kv = kv_fate::kept;
    deaths_max = 3; // with others, again with others, alone
  }
  fixture f;
  const auto good = f.start(5, 6), poison = f.start(5, 6);
  std::uint64_t epoch = 1;
  int deaths = 0;
  std::uint32_t good_tokens = 0;
  errc verdict{};
  while (!f.s.is_idle()) {
    const auto batch = f.s.next();
    REQUIRE(batch.has_value());
    bool kills = false; // the poison is at position 6
    for (const auto& slice : batch->slices)
      kills |= slice.sequence.ticket == poison && slice.position + slice.rows > 6;
    if (kills) {
      ++deaths;
      REQUIRE(deaths < 10);
      f.s.close_epoch(f.now);
      f.s.check_integrity();
      f.s.open_epoch({++epoch}, small_shape, loss::shard, kv);
    } else {
      f.answer(*batch);
    }
    for (const auto& m : f.s.take().tokens) {
      good_tokens += m.ticket == good ? static_cast<std::uint32_t>(m.samples.size()) : 0;
      if (m.failure) {
        CHECK(m.ticket == poison);
        verdict = m.failure->code;
      }
    }
  }
  CHECK(verdict == errc::quarantined);
  CHECK(deaths == deaths_max);
  CHECK(good_tokens == 6);
  CHECK(f.s.counted().quarantined == 1);
  f.check_at_rest();
}

constexpr pipeline_shape one_stage{.stages = 1, .blocks = 64, .block_positions = 4};

TEST_CASE("after a crash all run together again, except the rows that were in flight") {
  fixture f(small_config(), one_stage);
  std::set<ticket_id> suspects{f.start(5, 6), f.start(5, 6), f.start(5, 6)};
  for (int i = 0; i < 3; ++i) // each has three tokens: positions 0 to 6 are computed
    f.answer(f.next());
  const auto lost = f.next();
  CHECK(lost.slices.size() == 3);
  CHECK(lost.slices[0].position == 7);
  f.s.close_epoch(f.now);
  f.s.open_epoch({2}, one_stage);
  (void)f.start(4, 1); // one more, which was not in flight
  for (std::size_t rows = 0; rows < 3 * 7 + 4;) {
    const auto again = f.next();
    for (const auto& slice : again.slices)
      CHECK(slice.position + slice.rows <= 7);
    rows += again.rows();
    f.answer(again);
  }
  while (!suspects.empty()) {
    const auto alone = f.next();
    REQUIRE(alone.slices.size() == 1);
    CHECK(alone.slices[0].position == 7);
    CHECK_FALSE(f.s.next().has_value());
    CHECK(suspects.erase(alone.slices[0].sequence.ticket) == 1);
    f.answer(alone);
  }
  CHECK(f.next().slices.size() == 3); // together again
}

TEST_CASE("sequences in flight when a shard was killed run together again") {
  fixture f(small_config(), one_stage);
  f.start(5, 6), f.start(5, 6);
  f.answer(f.next());
  CHECK(f.next().slices.size() == 2);
  f.s.close_epoch(f.now);
  f.s.open_epoch({2}, one_stage, loss::shard, kv_fate::kept);
  CHECK(f.next().slices.size() == 2);
}

TEST_CASE("a sequence that runs alone after a crash is not blamed for a kill") {
  fixture f;
  f.start(5, 6), f.start(5, 6);
  (void)f.next();
  f.s.close_epoch(f.now);
  f.s.open_epoch({2}, small_shape);
  CHECK(f.next().slices.size() == 1);
  f.s.close_epoch(f.now);
  f.s.open_epoch({3}, small_shape, loss::shard, kv_fate::kept);
  CHECK(f.s.counted().quarantined == 0);
  f.run_all();
  CHECK(f.s.take().tokens.size() == 12);
  f.check_at_rest();
}

TEST_CASE("suspects whose rows are in the prefix cache continue") {
  auto config = small_config();
  config.enable_prefix_caching = true;
  fixture f(config);
  f.start(13, 4), f.start(13, 4); // the same prompt
  f.answer(f.next());
  f.answer(f.next());
  (void)f.next();
  f.s.close_epoch(f.now);
  f.s.open_epoch({2}, small_shape);
  f.run_all();
  CHECK(f.s.take().tokens.size() == 8);
  CHECK(f.s.counted().quarantined == 0);
  f.check_at_rest();
}

TEST_CASE("links that fall between live shards do not blame a lone sequence") {
  fixture f;
  f.start(5, 6);
  std::uint64_t epoch = 1;
  for (int i = 0; i < 10; ++i) {
    (void)f.next();
    f.s.close_epoch(f.now);
    f.s.check_integrity();
    f.s.open_epoch({++epoch}, small_shape, loss::link);
  }
  f.run_all();
  CHECK(f.s.take().tokens.size() == 6);
  CHECK(f.s.counted().quarantined == 0);
  f.check_at_rest();
}

TEST_CASE("a suspect that is cancelled before the next epoch opens is not judged") {
  fixture f;
  const auto ticket = f.start(5, 6);
  (void)f.next();
  f.s.close_epoch(f.now);
  f.s.cancel({.ticket = ticket, .choice = {}, .why = cancel_reason::client_gone, .reason = {}});
  f.s.open_epoch({2}, small_shape);
  CHECK(f.s.counted().quarantined == 0);
  f.check_at_rest();
}

TEST_CASE("shards that die at different steps do not blame a sequence") {
  fixture f;
  f.start(5, 20);
  std::uint64_t epoch = 1;
  for (int i = 0; i < 20; ++i) {
    (void)f.next();
    f.s.close_epoch(f.now);
    f.s.open_epoch({++epoch}, small_shape);
    // Recomputes up to and including the lost step.
    for (bool has_sampled = false; !has_sampled;) {
      const auto batch = f.next();
      has_sampled = !batch.draws.empty();
      f.answer(batch);
    }
  }
  CHECK(f.s.take().tokens.size() == 20);
  CHECK(f.s.counted().quarantined == 0);
  f.check_at_rest();
}
