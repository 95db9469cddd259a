// Speculative decoding: the source of draft tokens, their rows after a decode row, and their
// acceptance up to the first wrong one.
#include "schema/codec/codec.hpp"
#include "schema/limits.hpp"
#include "tests/unit/schedule/fixture.hpp"

using namespace baton;
using namespace baton::schedule;

namespace {

std::vector<token_id> drafts(const std::vector<token_id>& ids, std::size_t count = 3) {
  return look_up(ids, count);
}

struct speculation_fixture : fixture {
  explicit speculation_fixture(std::uint32_t blocks = 64, scheduler_config with = config())
      : fixture(std::move(with), {.stages = 1, .blocks = blocks, .block_positions = 4}) {}
  static scheduler_config config() {
    auto c = small_config();
    c.async_scheduling = true;
    c.num_speculative_tokens = 3;
    return c;
  }
  // A prompt in which 12 is followed by 13 14 15.
  ticket_id ask(std::uint32_t max_tokens = 10) {
    const auto ticket = grant();
    auto a = request(ticket, 1, max_tokens);
    a.prompt_ids = {11, 12, 13, 14, 15, 16, 11};
    s.admit(a);
    s.check_integrity();
    return ticket;
  }
  // The step after the prompt, which has drawn 12.
  micro_batch drafted() {
    answer(next(), 12);
    return next();
  }
  void answer_with(const micro_batch& batch, std::vector<token_id> drawn) {
    REQUIRE(drawn.size() == batch.draws.size());
    sampled step;
    step.batch = batch.batch;
    step.epoch = batch.epoch;
    for (const token_id token : drawn)
      step.samples.push_back({token, 0, {}});
    s.on_sampled(step);
    s.check_integrity();
  }
  std::vector<token_id> tokens_out() {
    std::vector<token_id> all;
    for (const auto& m : s.take().tokens)
      for (const auto& drawn : m.samples) {
        CHECK(m.index == all.size() + seen);
        all.push_back(drawn.token);
      }
    seen += all.size();
    return all;
  }
  std::size_t seen = 0;
};

} // namespace

TEST_CASE(
    "drafts are the continuation of the same ids before: the longest match, then the latest") {
  CHECK(drafts({1, 2, 3, 4, 5, 1, 2}) == std::vector<token_id>{3, 4, 5});
  CHECK(drafts({1, 2, 3, 4, 5, 1, 2}, 1) == std::vector<token_id>{3});
  CHECK(drafts({1, 2, 7, 1, 2, 8, 1, 2}) == std::vector<token_id>{8, 1, 2});
  CHECK(drafts({9, 1, 2, 7, 5, 1, 2, 8, 9, 1, 2}) == std::vector<token_id>{7, 5, 1});
  CHECK(drafts({5, 5, 5, 5}) == std::vector<token_id>{5});
}

TEST_CASE("without a match nothing is drafted") {
  CHECK(drafts({}).empty());
  CHECK(drafts({1}).empty());
  CHECK(drafts({1, 2}).empty());
  CHECK(drafts({1, 2, 3, 4}).empty());
  CHECK(drafts({3, 9, 1, 3}).empty()); // one id is too few
  CHECK(drafts({1, 2, 3, 1, 2}, 0).empty());
  CHECK(look_up(std::vector<token_id>{3, 9, 1, 3}, 2, {.ngram_max = 4, .ngram_min = 1}) ==
        std::vector<token_id>{9, 1});
  CHECK(look_up(std::vector<token_id>{1, 2, 3, 8, 8, 8, 1, 2}, 2, {.window = 4}).empty());
}

TEST_CASE("drafts follow the row, each with a draw of its own") {
  speculation_fixture f;
  f.ask();
  const auto batch = f.drafted();
  CHECK(batch.tokens == std::vector<token_id>{12, 13, 14, 15});
  REQUIRE(batch.slices.size() == 1);
  CHECK(batch.slices[0].position == 7);
  CHECK(batch.slices[0].rows == 4);
  CHECK(batch.slices[0].drafts == 3);
  REQUIRE(batch.draws.size() == 4);
  for (std::uint32_t i = 0; i < 4; ++i)
    CHECK(batch.draws[i].token_index == 1 + i);
  CHECK_FALSE(f.s.next()); // the next token is unknown until they are verified
}

TEST_CASE("a sequence with drafts does not run ahead of its tokens") {
  speculation_fixture f;
  f.ask();
  const auto prompt = f.next();
  CHECK_FALSE(f.s.next());
  f.answer(prompt, 12);
  CHECK(f.next().slices[0].drafts == 3);
}

TEST_CASE("correct drafts count, and the token after them; the next step continues there") {
  speculation_fixture f;
  f.ask();
  f.answer_with(f.drafted(), {13, 14, 15, 90});
  CHECK(f.tokens_out() == std::vector<token_id>{12, 13, 14, 15, 90});
  const auto next = f.next();
  CHECK(next.slices[0].position == 11);
  CHECK(next.tokens == std::vector<token_id>{90});
  CHECK(f.s.load().spec_decode_accepted_tokens == 3);
  CHECK(f.s.load().spec_decode_draft_tokens == 3);
}

TEST_CASE("a wrong draft ends it: the token drawn in its place counts, the later ones do not") {
  speculation_fixture f;
  f.ask();
  f.answer_with(f.drafted(), {13, 50, 15, 90});
  CHECK(f.tokens_out() == std::vector<token_id>{12, 13, 50});
  const auto next = f.next();
  CHECK(next.slices[0].position == 9);
  CHECK(next.tokens == std::vector<token_id>{50});
}

TEST_CASE("an end token among the draws ends the sequence there") {
  speculation_fixture f;
  f.ask();
  f.answer_with(f.drafted(), {13, 2, 15, 90});
  CHECK(f.tokens_out() == std::vector<token_id>{12, 13, 2});
  f.check_at_rest();
}

TEST_CASE("no more is drafted than may follow") {
  speculation_fixture f;
  f.ask(3);
  const auto batch = f.drafted();
  CHECK(batch.slices[0].drafts == 1); // the third and last token is the one behind it
  f.answer_with(batch, {13, 14});
  CHECK(f.tokens_out() == std::vector<token_id>{12, 13, 14});
  f.check_at_rest();
}

TEST_CASE("a request chooses the number of drafts, or none") {
  for (const std::int32_t wanted : {0, 1, 2}) {
    speculation_fixture f;
    const auto ticket = f.grant();
    auto a = f.request(ticket);
    a.prompt_ids = {11, 12, 13, 14, 15, 16, 11};
    a.terms.sampling.num_speculative_tokens = wanted;
    f.s.admit(a);
    f.answer(f.next(), 12);
    CHECK(f.next().slices[0].drafts == static_cast<std::uint32_t>(wanted));
  }
}

TEST_CASE("drafts take no block that other requests may need") {
  speculation_fixture f(3); // 12 positions; the sequence has 8 in two blocks
  f.ask();
  f.answer(f.next(), 12);
  const auto batch = f.next();
  CHECK(batch.slices[0].drafts == 0);
}

TEST_CASE("penalties count the drafts before a draw") {
  speculation_fixture f;
  const auto ticket = f.grant();
  auto a = f.request(ticket);
  a.prompt_ids = {11, 12, 13, 14, 15, 16, 11};
  a.terms.sampling.presence_penalty = 1;
  f.s.admit(a);
  f.answer(f.next(), 12);
  const auto batch = f.next();
  REQUIRE(batch.draws.size() == 4);
  const auto count_of = [&](std::size_t draw, token_id token) {
    for (const auto& c : batch.draws[draw].history)
      if (c.token == token)
        return c.in_output;
    return 0U;
  };
  CHECK(count_of(0, 12) == 1);
  CHECK(count_of(0, 13) == 0);
  CHECK(count_of(1, 13) == 1);
  CHECK(count_of(1, 14) == 0);
  CHECK(count_of(3, 15) == 1);
}

TEST_CASE("a failed or lost step discards its drafts") {
  speculation_fixture f;
  f.ask();
  SUBCASE("failed, beside another") {
    f.answer(f.next(), 12);
    f.start();
    const auto batch = f.next();
    REQUIRE(batch.slices.size() == 2);
    f.answer_failure(batch);
  }
  SUBCASE("lost") {
    f.drafted();
    f.s.close_epoch(f.now);
    f.s.check_integrity();
    f.s.open_epoch({2}, {.stages = 1, .blocks = 64, .block_positions = 4}, loss::link,
                   kv_fate::kept);
  }
  const auto again = f.next();
  CHECK(again.slices[0].position == 7);
  CHECK(again.tokens[0] == 12);
}

TEST_CASE("sequences with drafts and sequences run ahead share their steps") {
  speculation_fixture f;
  f.ask();
  f.answer(f.next(), 12);
  const auto other = f.grant();
  auto a = f.request(other, 3, 20);
  a.terms.sampling.num_speculative_tokens = 0;
  f.s.admit(a);
  const auto first = f.next(); // drafts, and the other's prompt
  CHECK(first.slices.size() == 2);
  const auto ahead = f.next(); // the other alone
  CHECK(ahead.slices.size() == 1);
  CHECK(ahead.feeds == std::vector<feed>{{0, 4, first.batch}});
  f.answer_with(first, {13, 14, 60, 61, 70});
  const auto both = f.next();
  CHECK(both.slices.size() == 2);
}

TEST_CASE("sequences with drafts do not alternate endlessly: the second waits for the first") {
  speculation_fixture f;
  const auto wanting = [&](token_id first) {
    const auto ticket = f.grant();
    auto a = f.request(ticket, 1, 10);
    a.prompt_ids = {first, 12, 13, 14, 15, 16, first};
    f.s.admit(a);
  };
  wanting(11);
  const auto a = f.next();
  wanting(21);
  const auto b = f.next();
  f.answer(a, 12); // could continue, but b will return
  const auto ahead = f.s.next();
  CHECK((!ahead || ahead->slices.size() == 2));
}

TEST_CASE("nothing is drafted while many sequences run; they run ahead instead") {
  auto config = speculation_fixture::config();
  config.speculative_disable_by_batch_size = 2;
  speculation_fixture f(64, config);
  f.ask();
  const auto alone = f.drafted();
  CHECK(alone.slices[0].drafts == 3);
  f.ask(2);
  const auto prompt = f.next(); // of the second
  f.answer_with(alone, {13, 60, 61, 62});
  f.answer(prompt, 12);
  const auto both = f.next();
  REQUIRE(both.slices.size() == 2);
  CHECK(both.slices[0].drafts == 0);
  CHECK(both.slices[1].drafts == 0);
  const auto ahead = f.next();
  REQUIRE(ahead.slices.size() == 1); // the second one's next token is its last
  CHECK(ahead.feeds.size() == 1);
}

TEST_CASE("a step draws no more tokens than a message carries, and no sequence is left out") {
  auto config = speculation_fixture::config();
  config.max_num_seqs = config.max_num_queued_reqs = 2000;
  config.max_num_queued_tokens = 1 << 20;
  std::uint32_t rows = 0;
  SUBCASE("all decode, with drafts") {
    rows = 16384;
  }
  SUBCASE("beside prompts") {
    rows = 8192; // some of 1500 prompts are left
  }
  config.max_num_batched_tokens = config.prefill_chunk = rows;
  speculation_fixture f(8000, config);
  for (int i = 0; i < 1500; ++i)
    f.ask();
  f.answer(f.next(), 12);
  const auto batch = f.next();
  CHECK(batch.slices.size() == 1500);
  CHECK(batch.draws.size() <= limits::draws_max);
  CHECK(batch.draws.size() >= limits::draws_max / 2);
  CHECK(encode({}, message(batch)).body.size_bytes > 0);
}

TEST_CASE("a step has no more sequences than a message carries, and the others follow") {
  auto config = small_config();
  config.max_num_seqs = config.max_num_queued_reqs = 6000;
  config.max_num_queued_tokens = 1 << 20;
  config.max_num_batched_tokens = config.prefill_chunk = 16384;
  for (const std::size_t prompt : {1, 2}) {
    CAPTURE(prompt);
    fixture f(config, {.stages = 1, .blocks = 8000, .block_positions = 4});
    for (int i = 0; i < 6000; ++i)
      f.s.admit(f.request(f.grant(), prompt, 1));
    const auto first = f.next();
    CHECK(first.slices.size() == limits::slices_max);
    CHECK(encode({}, message(first)).body.size_bytes > 0);
    f.answer(first);
    const auto second = f.next();
    CHECK(second.slices.size() == 6000 - limits::slices_max);
    f.answer(second);
    f.check_at_rest();
  }
}

TEST_CASE("a step has no more bytes than a message carries, and no sequence is left out") {
  constexpr std::uint32_t streams = 2500;
  auto config = speculation_fixture::config();
  config.max_num_seqs = config.max_num_queued_reqs = streams;
  config.max_num_queued_tokens = 1 << 20;
  config.max_num_batched_tokens = config.prefill_chunk = 8192;
  speculation_fixture f(8000, config);
  for (std::uint32_t i = 0; i < streams; ++i) {
    auto a = f.request(f.grant(), i % 2 == 0 ? 1 : 3, 4);
    a.terms.sampling.biases.assign(limits::biases_max, {7, 1.0f}); // 80 MB for all of them
    f.s.admit(a);
  }
  std::size_t steps = 0, draws = 0;
  for (; const auto batch = f.s.next(); ++steps) {
    CHECK(encode({}, message(*batch)).body.size_bytes <= limits::body_bytes_max);
    draws += batch->draws.size();
    f.answer(*batch, 12);
    REQUIRE(steps < 100);
  }
  CHECK(draws >= streams * 4);
  f.check_at_rest();
}
