// Prefix caching: blocks that a later sequence reuses, and those that it must not reuse.
#include "tests/unit/schedule/fixture.hpp"

#include <numeric>

using namespace baton;
using namespace baton::schedule;

namespace {

scheduler_config caching_config() {
  auto c = small_config();
  c.enable_prefix_caching = true;
  return c;
}

struct caching_fixture : fixture {
  explicit caching_fixture(std::uint32_t blocks = 64)
      : fixture(caching_config(), {.stages = 1, .blocks = blocks, .block_positions = 4}) {}

  ticket_id ask(std::vector<token_id> prompt, std::string salt = {}, std::uint32_t max_tokens = 1,
                std::uint32_t choices = 1) {
    const auto ticket = grant(choices);
    auto a = request(ticket, 1, max_tokens);
    a.prompt_ids = std::move(prompt);
    a.terms.cache_salt = std::move(salt);
    a.terms.choices = choices;
    s.admit(a);
    s.check_integrity();
    return ticket;
  }
  // The number of rows computed for all waiting requests.
  std::size_t rows_of_all() {
    std::size_t rows = 0;
    while (auto batch = s.next()) {
      rows += batch->tokens.size();
      answer(*batch);
    }
    return rows;
  }
};

// `count` ids from `first` on.
std::vector<token_id> counting(token_id first, std::size_t count) {
  std::vector<token_id> ids(count);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

std::vector<token_id> put_together(std::vector<token_id> a, const std::vector<token_id>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

} // namespace

TEST_CASE("a cached prefix is not recomputed, and the answer reports it") {
  caching_fixture f;
  f.ask(put_together(counting(10, 9), {50}));
  CHECK(f.rows_of_all() == 10);
  CHECK(f.s.take().tokens.front().cached_tokens == 0);
  f.ask(put_together(counting(10, 9), {60, 61}));
  const auto batch = f.next();
  REQUIRE(batch.slices.size() == 1);
  CHECK(batch.slices[0].position == 8); // whole blocks of 4
  CHECK(batch.tokens == std::vector<token_id>{18, 60, 61});
  f.answer(batch);
  CHECK(f.s.take().tokens.front().cached_tokens == 8);
  CHECK(f.s.load().prefix_cache_queries == 21);
  CHECK(f.s.load().prefix_cache_hits == 8);
  f.check_at_rest();
}

TEST_CASE("two sequences that run at the same time share the blocks of their prefix") {
  caching_fixture f;
  f.ask(put_together(counting(10, 8), {50}), {}, 9);
  const auto first = f.next();
  f.answer(first);
  f.ask(put_together(counting(10, 8), {60}), {}, 9);
  const auto batch = f.next();
  REQUIRE(batch.slices.size() == 2);
  CHECK(batch.slices[0].blocks[0] == batch.slices[1].blocks[0]);
  CHECK(batch.slices[0].blocks[1] == batch.slices[1].blocks[1]);
  CHECK(batch.slices[0].blocks[2] != batch.slices[1].blocks[2]);
  CHECK(f.s.load().blocks_used == 4);
  f.answer(batch);
  f.run_all();
  f.check_at_rest();
}

TEST_CASE("the last row of a prompt is computed even if all of it is cached: it draws") {
  caching_fixture f;
  for (const std::size_t expected : {8, 4}) {
    f.ask(counting(10, 8));
    CHECK(f.rows_of_all() == expected);
  }
}

TEST_CASE("requests of different salts share nothing") {
  caching_fixture f;
  f.ask(counting(10, 9), "one");
  CHECK(f.rows_of_all() == 9);
  f.ask(counting(10, 9), "two");
  CHECK(f.rows_of_all() == 9);
  f.ask(counting(10, 9), "one");
  CHECK(f.rows_of_all() == 1);
}

TEST_CASE("the same tokens after another prefix do not match") {
  caching_fixture f;
  f.ask(put_together(counting(10, 4), counting(50, 5)));
  CHECK(f.rows_of_all() == 9);
  f.ask(put_together(counting(20, 4), counting(50, 5)));
  CHECK(f.rows_of_all() == 9);
}

TEST_CASE("an answer is part of the prefix of the next turn") {
  caching_fixture f;
  f.ask(counting(10, 3), {}, 6); // and 6 tokens, each 5
  f.rows_of_all();
  f.ask(put_together(put_together(counting(10, 3), {5, 5, 5, 5, 5, 5}), {60, 61}));
  CHECK(f.rows_of_all() == 3); // two blocks are cached; the last token of an answer has no row
}

TEST_CASE("the choices of a request compute its prompt once") {
  caching_fixture f;
  f.ask(counting(10, 17), {}, 1, 3);
  CHECK(f.rows_of_all() < 2 * 17);
  std::uint32_t cached = 0;
  for (const auto& m : f.s.take().tokens)
    cached += m.cached_tokens;
  CHECK(cached == 32);
  f.check_at_rest();
}

TEST_CASE("blocks are evicted from the prefixes that have been unused for longest") {
  caching_fixture f(4);
  f.ask(counting(10, 5));
  f.ask(counting(30, 5));
  f.rows_of_all(); // two kept, of two prompts; two free
  CHECK(f.s.load().blocks_used == 0);
  f.ask(counting(50, 12)); // three blocks: the older one goes
  CHECK(f.rows_of_all() == 12);
  f.ask(counting(30, 5));
  CHECK(f.rows_of_all() == 1);
  f.ask(counting(10, 5));
  CHECK(f.rows_of_all() == 5);
  f.check_at_rest();
}

TEST_CASE("a lost epoch clears the cache") {
  caching_fixture f;
  f.ask(counting(10, 9));
  f.rows_of_all();
  f.s.close_epoch(f.now);
  f.s.open_epoch({2}, small_shape);
  f.ask(counting(10, 9));
  CHECK(f.rows_of_all() == 9);
}

TEST_CASE("if the KV outlives its shard, only steps in flight are repeated") {
  caching_fixture f;
  f.ask(counting(10, 9), {}, 20);
  f.answer(f.next());
  f.answer(f.next());
  const auto lost = f.next();
  f.s.close_epoch(f.now);
  f.s.check_integrity();
  CHECK_FALSE(f.s.next());
  f.ask(counting(10, 9)); // arrives meanwhile, matches the prefix
  f.s.open_epoch({2}, {.stages = 1, .blocks = 64, .block_positions = 4}, loss::shard,
                 kv_fate::kept);
  const auto again = f.next();
  REQUIRE(again.slices.size() == 2);
  CHECK(again.slices[0] == lost.slices[0]);
  CHECK(again.tokens[0] == lost.tokens[0]);
  CHECK(again.slices[1].position == 8);
  f.answer(again);
  f.run_all();
  f.check_at_rest();
}

TEST_CASE("another number of blocks is another memory, even if it is reported as kept") {
  caching_fixture f;
  f.ask(counting(10, 9), {}, 20);
  f.answer(f.next());
  f.s.close_epoch(f.now);
  f.s.open_epoch({2}, {.stages = 1, .blocks = 63, .block_positions = 4}, loss::shard,
                 kv_fate::kept);
  CHECK(f.next().slices[0].position == 0);
}

TEST_CASE("without prefix caching every prompt is computed completely") {
  fixture f;
  for (int i = 0; i < 2; ++i) {
    f.start(9, 1);
    const auto batch = f.next();
    CHECK(batch.tokens.size() == 9);
    f.answer(batch);
  }
  CHECK(f.s.load().prefix_cache_queries == 0);
}

TEST_CASE("two that computed the same at the same time keep their own blocks") {
  block_manager account(6, 4);
  const sequence_id a{{1}, 0}, b{{2}, 0}, c{{3}, 0};
  const auto ids = counting(10, 9);
  for (const auto id : {a, b}) {
    REQUIRE(account.grow(id, 9));
    account.publish(id, {}, ids, 8);
    account.check_integrity();
  }
  account.release(b);
  CHECK(account.free() == 3);
  CHECK(account.match_prefix(c, {}, ids, 0) == 8);
  CHECK(account.of(c)[1] == account.of(a)[1]);
  account.release(a);
  account.check_integrity();
  CHECK(account.used() == 2);
  CHECK(account.match_prefix(c, {}, ids, 8) == 8);
  account.release(c);
  account.check_integrity();
  CHECK(account.free() == 6);
}
