// Async scheduling: one micro-batch ahead of its tokens. Which batch may be formed early, how it
// gets its tokens, and that a useless one leaves no trace.
#include "runtime/schedule/steps/token_feedback.hpp"
#include "tests/unit/schedule/fixture.hpp"

using namespace baton;
using namespace baton::schedule;

namespace {

struct ahead_fixture : fixture {
  explicit ahead_fixture(std::uint32_t stages = 1, std::uint32_t blocks = 64)
      : fixture(config(), {.stages = stages, .blocks = blocks, .block_positions = 4}) {}
  static scheduler_config config() {
    auto c = small_config();
    c.async_scheduling = true;
    return c;
  }
};

sampled drawn(batch_id batch, std::vector<token_id> tokens) {
  sampled s;
  s.batch = batch;
  for (const token_id token : tokens)
    s.samples.push_back({token, 0, {}});
  return s;
}

micro_batch asking(batch_id batch, std::vector<feed> feeds, std::size_t rows = 1) {
  micro_batch m;
  m.batch = batch;
  m.tokens.assign(rows, 10);
  m.slices.push_back({{{1}, 0}, 0, static_cast<std::uint32_t>(rows), true, {}});
  m.draws.resize(1);
  for (const feed& f : feeds)
    m.tokens.at(f.row) = placeholder_token;
  m.feeds = std::move(feeds);
  return m;
}

} // namespace

TEST_CASE("the next step is formed while the last one runs, and requests its token") {
  ahead_fixture f;
  f.start();
  const auto prompt = f.next();
  CHECK(prompt.feeds.empty());
  const auto ahead = f.next();
  REQUIRE(ahead.tokens == std::vector<token_id>{placeholder_token});
  CHECK(ahead.feeds == std::vector<feed>{{0, 0, prompt.batch}});
  CHECK(ahead.slices.at(0).position == 5);
  CHECK(ahead.draws.at(0).token_index == 1);
  CHECK_FALSE(f.s.next()); // one is enough
  f.answer(prompt, 5);
  const auto third = f.next();
  CHECK(third.feeds == std::vector<feed>{{0, 0, ahead.batch}});
  f.answer(ahead, 6);
  f.answer(third, 7);
  const auto out = f.s.take();
  REQUIRE(out.tokens.size() == 3);
  CHECK(out.tokens[2].index == 2);
  CHECK(out.tokens[2].samples.at(0).token == 7);
}

TEST_CASE("each row requests the draw of its own sequence") {
  ahead_fixture f;
  f.start(3);
  f.start(4);
  const auto prompts = f.next();
  REQUIRE(prompts.draws.size() == 2);
  const auto ahead = f.next();
  CHECK(ahead.feeds == std::vector<feed>{{0, 0, prompts.batch}, {1, 1, prompts.batch}});
}

TEST_CASE("rows of a new prompt join rows with tokens to come") {
  ahead_fixture f;
  f.start(3);
  const auto first = f.next();
  f.start(6);
  const auto second = f.next();
  CHECK(second.tokens.size() == 7);
  CHECK(second.feeds == std::vector<feed>{{0, 0, first.batch}});
  CHECK(second.draws.size() == 2);
}

TEST_CASE("nothing runs ahead of a last token: the length is known") {
  ahead_fixture f;
  f.start(5, 1);
  const auto only = f.next();
  CHECK_FALSE(f.s.next());
  f.answer(only);
  f.check_at_rest();
}

TEST_CASE("nor of the end of the context") {
  ahead_fixture f;
  const auto ticket = f.grant();
  auto a = f.request(ticket, small_config().max_model_len - 1);
  a.terms.max_tokens_given = false;
  f.s.admit(a);
  while (auto batch = f.s.next()) {
    CHECK(batch->feeds.empty());
    f.answer(*batch);
  }
  f.check_at_rest();
}

TEST_CASE("a step after an end token is discarded: its tokens do not count, its blocks come back") {
  ahead_fixture f;
  f.start();
  const auto prompt = f.next();
  const auto ahead = f.next();
  f.answer(prompt, 2); // an end token
  CHECK_FALSE(f.s.is_idle());
  CHECK(f.s.load().blocks_used > 0);
  f.answer(ahead, 5);
  const auto out = f.s.take();
  REQUIRE(out.tokens.size() == 1);
  CHECK(out.tokens[0].finish == finish::stop);
  f.check_at_rest();
}

TEST_CASE("a step after a failed one is repeated") {
  ahead_fixture f;
  f.start();
  f.start();
  const auto prompts = f.next();
  const auto ahead = f.next();
  f.answer_failure(prompts);
  f.answer(ahead, 9);
  CHECK(f.s.take().tokens.empty());
  f.run_all();
  CHECK(f.s.take().tokens.size() == 20);
  f.check_at_rest();
}

TEST_CASE("a lost epoch discards the steps ahead") {
  ahead_fixture f;
  f.start();
  const auto prompt = f.next();
  f.answer(prompt, 5);
  f.next();
  f.next();
  f.s.close_epoch(f.now);
  f.s.check_integrity();
  f.s.open_epoch({2}, {.stages = 1, .blocks = 64, .block_positions = 4}, loss::link, kv_fate::kept);
  const auto again = f.next();
  CHECK(again.feeds.empty());
  CHECK(again.tokens == std::vector<token_id>{5});
  CHECK(again.slices.at(0).position == 5);
  CHECK(again.draws.at(0).token_index == 1);
}

TEST_CASE("two stages have three micro-batches in flight, the third one ahead of the first") {
  ahead_fixture f(2);
  f.start();
  f.start();
  const auto prompts = f.next(); // both; from now on they alternate
  f.answer(prompts);
  const auto a = f.next();
  const auto b = f.next();
  const auto ahead = f.next();
  CHECK(a.slices.size() == 1);
  CHECK(b.slices.size() == 1);
  CHECK(b.feeds.empty());
  CHECK(ahead.slices.at(0).sequence == a.slices.at(0).sequence);
  CHECK(ahead.feeds == std::vector<feed>{{0, 0, a.batch}});
  CHECK_FALSE(f.s.next());
}

TEST_CASE(
    "only the batch that returns first is run ahead of: one row that waits for more holds up all") {
  ahead_fixture f(2);
  for (int i = 0; i < 3; ++i)
    f.start();
  const auto prompts = f.next(); // all three; from now on two and one
  f.answer(prompts);
  const auto a = f.next();
  const auto b = f.next();
  REQUIRE(a.slices.size() == 2);
  REQUIRE(b.slices.size() == 1);
  f.answer(a);
  const auto c = f.next(); // flights: b; a stage is free
  CHECK(c.feeds.empty());
  const auto ahead = f.next();
  for (const auto& each : ahead.feeds)
    CHECK(each.batch == b.batch);
  CHECK(ahead.feeds.size() == 1);
}

TEST_CASE("blocks for a row ahead are allocated before it is issued") {
  ahead_fixture f(1, 2); // 8 positions
  const auto ticket = f.grant();
  f.s.admit(f.request(ticket, 3, 5));
  f.run_all();
  CHECK(f.s.take().tokens.back().finish == finish::length);
  f.check_at_rest();
}

TEST_CASE("the feed holds back a batch until its tokens are drawn, and those after it") {
  token_feedback feed;
  feed.push(asking({1}, {}));
  REQUIRE(feed.pop());
  feed.push(asking({2}, {{0, 1, {1}}}));
  feed.push(asking({3}, {}));
  CHECK_FALSE(feed.pop());
  feed.remember(drawn({1}, {40, 41}));
  auto first = feed.pop();
  REQUIRE(first);
  CHECK(first->filled.has_value());
  CHECK(first->batch.tokens == std::vector<token_id>{41});
  CHECK(first->batch.feeds.empty());
  auto second = feed.pop();
  REQUIRE(second);
  CHECK(second->batch.batch == batch_id{3});
  CHECK_FALSE(feed.pop());
}

TEST_CASE("the feed shows the batches that wait for one batch alone") {
  token_feedback feed;
  CHECK(feed.next_behind({1}) == nullptr);
  for (const std::uint64_t batch : {1, 2}) {
    feed.push(asking({batch}, {}));
    REQUIRE(feed.pop());
  }
  feed.push(asking({3}, {{0, 1, {2}}}));
  feed.push(asking({4}, {{0, 1, {1}}}));
  REQUIRE(feed.next_behind({2}) != nullptr);
  CHECK(feed.next_behind({2})->batch == batch_id{3});
  CHECK(feed.next_behind({1}) == nullptr); // nothing overtakes
  feed.remember(drawn({2}, {40, 41}));
  REQUIRE(feed.pop());
  feed.clear();
  auto of_two = asking({5}, {{0, 0, {1}}});
  of_two.tokens.push_back(placeholder_token);
  of_two.feeds.push_back({1, 0, {2}});
  feed.push(of_two);
  CHECK(feed.next_behind({1}) == nullptr);
  CHECK(feed.next_behind({2}) == nullptr);
}

TEST_CASE("tokens from the feed count for the penalties of the next draw") {
  token_feedback feed;
  feed.remember(drawn({1}, {41}));
  feed.remember(drawn({2}, {42}));
  for (const token_id token : {41, 42}) {
    auto batch = asking({3}, {{0, 0, {static_cast<std::uint64_t>(token - 40)}}});
    batch.draws[0].sampling.presence_penalty = 1;
    batch.draws[0].history = {{41, 1, 2}};
    feed.push(batch);
    const auto next = feed.pop();
    REQUIRE(next);
    const auto expected = token == 41 ? std::vector<token_count>{{41, 1, 3}}
                                      : std::vector<token_count>{{41, 1, 2}, {42, 0, 1}};
    CHECK(next->batch.draws[0].history == expected);
  }
}

TEST_CASE("the batch after a failed one runs with any token: it will be discarded") {
  token_feedback feed;
  auto failed = drawn({1}, {});
  failed.failure = error{errc::internal, "broken", {}};
  feed.remember(failed);
  feed.push(asking({2}, {{0, 3, {1}}}));
  const auto next = feed.pop();
  REQUIRE(next);
  CHECK(next->filled.has_value());
  CHECK(next->batch.tokens.at(0) >= 0);
}

TEST_CASE("a failure known early fails no request that waits for an earlier batch") {
  token_feedback feed;
  for (const std::uint64_t batch : {1, 2}) {
    feed.push(asking({batch}, {}));
    REQUIRE(feed.pop());
  }
  auto failed = drawn({2}, {});
  failed.failure = error{errc::internal, "broken at the first stage", {}};
  feed.remember(failed);
  feed.push(asking({3}, {{0, 0, {1}}}));
  CHECK_FALSE(feed.pop());
  feed.remember(drawn({1}, {40}));
  const auto next = feed.pop();
  REQUIRE(next);
  CHECK(next->filled.has_value());
  CHECK(next->batch.tokens == std::vector<token_id>{40});
}

TEST_CASE("a batch that requests a token never drawn is an error, not a wait") {
  token_feedback feed;
  feed.remember(drawn({4}, {40}));
  const std::vector<std::pair<const char*, micro_batch>> wrong{
      {"an unknown batch", asking({5}, {{0, 0, {3}}})},
      {"an unknown draw", asking({5}, {{0, 1, {4}}})},
      {"itself", asking({5}, {{0, 0, {5}}})},
      {"a later one", asking({5}, {{0, 0, {6}}})},
      {"a row that is known",
       [] {
         auto m = asking({5}, {{0, 0, {4}}});
         m.tokens[0] = 1;
         return m;
       }()},
      {"a row that is not there",
       [] {
         auto m = asking({5}, {{0, 0, {4}}});
         m.feeds[0].row = 1;
         return m;
       }()},
  };
  for (const auto& [what, batch] : wrong) {
    CAPTURE(what);
    feed.push(batch);
    const auto next = feed.pop();
    REQUIRE(next);
    CHECK_FALSE(next->filled.has_value());
  }
}

TEST_CASE("another epoch clears waiting batches and drawn tokens") {
  token_feedback feed;
  feed.push(asking({1}, {}));
  REQUIRE(feed.pop());
  feed.remember(drawn({1}, {40}));
  feed.push(asking({2}, {{0, 0, {1}}}));
  feed.clear();
  CHECK_FALSE(feed.pop());
  feed.push(asking({1}, {}));
  REQUIRE(feed.pop());
  feed.push(asking({2}, {{0, 0, {1}}}));
  CHECK_FALSE(feed.pop());
}

TEST_CASE("a failure known before its cause blames no request") {
  ahead_fixture f(2);
  const auto innocent = f.start();
  const auto prompt = f.next();
  f.answer(prompt, 5);
  f.start(5, 4); // its step will fail, beside others
  const auto together = f.next();
  REQUIRE(together.slices.size() == 2);
  const auto ahead = f.next();
  REQUIRE(ahead.slices.size() == 1);
  REQUIRE(ahead.slices[0].sequence.ticket == innocent);
  f.answer_failure(ahead); // over a shorter path
  f.answer_failure(together);
  CHECK(f.s.take().refusals.empty());
  f.run_all(6);
  const auto out = f.s.take();
  for (const auto& m : out.tokens)
    CHECK(m.finish != finish::failed);
  CHECK(out.refusals.empty());
  f.check_at_rest();
}
