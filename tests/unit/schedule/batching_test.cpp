// The choice of rows for each micro-batch.
#include "tests/unit/schedule/fixture.hpp"

#include <algorithm>
#include <set>

using namespace baton;
using namespace baton::schedule;

namespace {

scheduler_config config_of(std::uint32_t seqs, std::uint32_t rows = 32, std::uint32_t chunk = 16) {
  auto c = small_config();
  c.max_num_seqs = seqs;
  c.max_num_batched_tokens = rows;
  c.prefill_chunk = chunk;
  c.max_num_queued_reqs = 64;
  c.max_num_queued_tokens = 100'000;
  return c;
}

// Starts n sequences and brings them all to decode; nothing is in flight.
std::vector<ticket_id> start_decoding(fixture& f, int n, std::uint32_t max_tokens = 40) {
  std::vector<ticket_id> tickets;
  for (int i = 0; i < n; ++i)
    tickets.push_back(f.start(3, max_tokens));
  while (n > 0) {
    f.answer(f.next());
    for (const auto& m : f.s.take().tokens)
      n -= m.begins ? 1 : 0;
  }
  return tickets;
}

} // namespace

TEST_CASE("chunks of a prompt follow one another in flight, and the last one samples") {
  fixture f(config_of(8));
  f.start(40);
  const auto first = f.next(), second = f.next();
  CHECK_FALSE(f.s.next().has_value()); // as many as stages
  CHECK(first.batch == batch_id{1});
  CHECK(second.batch == batch_id{2});
  CHECK(first.slices[0].position == 0);
  CHECK(first.slices[0].rows == 16);
  CHECK(first.slices[0].blocks.size() == 4);
  CHECK(first.draws.empty());
  CHECK(second.slices[0].position == 16);
  CHECK(second.slices[0].blocks.size() == 8);
  f.answer(first);
  const auto third = f.next();
  CHECK(third.slices[0].position == 32);
  CHECK(third.slices[0].rows == 8);
  CHECK(third.slices[0].samples);
  REQUIRE(third.draws.size() == 1);
  CHECK(third.draws[0].token_index == 0);
  f.answer(second);
  CHECK_FALSE(f.s.next().has_value()); // the next token is not known yet
  f.answer(third, 9);
  const auto decode = f.next();
  CHECK(decode.tokens == std::vector<token_id>{9});
  CHECK(decode.slices[0].position == 40);
  CHECK(decode.draws[0].token_index == 1);
}

TEST_CASE("decodes are divided evenly over the stages") {
  struct row {
    std::uint32_t stages;
    int sequences;
    std::vector<std::size_t> expected;
  };
  const row rows[] = {{1, 8, {8}},       {2, 8, {4, 4}},    {2, 7, {4, 3}}, {2, 1, {1}},
                      {3, 8, {3, 3, 2}}, {4, 6, {2, 2, 2}}, {3, 2, {1, 1}}};
  for (const auto& r : rows) {
    CAPTURE(r.stages);
    CAPTURE(r.sequences);
    fixture f(config_of(8), {.stages = r.stages, .blocks = 256, .block_positions = 4});
    start_decoding(f, r.sequences);
    std::vector<micro_batch> flying;
    std::vector<std::size_t> sizes;
    std::set<sequence_id> seen;
    while (auto batch = f.s.next()) {
      sizes.push_back(batch->rows());
      for (const auto& slice : batch->slices)
        CHECK(seen.insert(slice.sequence).second);
      flying.push_back(*batch);
    }
    CHECK(sizes == r.expected);
    // In the steady state each answer makes room for an equal batch.
    for (int round = 0; round < 12; ++round) {
      const auto back = flying.front();
      flying.erase(flying.begin());
      f.answer(back);
      const auto again = f.next();
      CHECK(again.rows() == back.rows());
      CHECK_FALSE(f.s.next().has_value());
      flying.push_back(again);
    }
  }
}

TEST_CASE("after a loss the steps in flight are repeated unchanged, oldest first") {
  fixture f(config_of(8), {.stages = 2, .blocks = 256, .block_positions = 4});
  const auto tickets = start_decoding(f, 4);
  const auto members = [](const micro_batch& b) {
    std::set<ticket_id> who;
    for (const auto& slice : b.slices)
      who.insert(slice.sequence.ticket);
    return who;
  };
  const std::set early{tickets[0], tickets[1]}, late{tickets[2], tickets[3]};
  const auto first = f.next(), second = f.next();
  REQUIRE(members(first) == early);
  REQUIRE(members(second) == late);
  f.answer(first);
  REQUIRE(members(f.next()) == early);
  f.s.close_epoch(f.now);
  bool was_it_done = false;
  SUBCASE("neither result arrives") {}
  SUBCASE("the older result arrives after the loss") {
    f.answer(second);
    was_it_done = true;
  }
  f.s.open_epoch({2}, {.stages = 2, .blocks = 256, .block_positions = 4}, loss::shard,
                 kv_fate::kept);
  CHECK(members(f.next()) == (was_it_done ? early : late));
  CHECK(members(f.next()) == (was_it_done ? late : early));
}

TEST_CASE("decodes that do not fit into one micro-batch alternate") {
  fixture f(config_of(8, /*rows=*/3, /*chunk=*/3),
            {.stages = 1, .blocks = 256, .block_positions = 4});
  start_decoding(f, 8);
  std::map<sequence_id, int> turns;
  for (int i = 0; i < 8; ++i) {
    const auto batch = f.next();
    CHECK(batch.rows() == 3);
    for (const auto& slice : batch.slices)
      ++turns[slice.sequence];
    f.answer(batch);
  }
  CHECK(turns.size() == 8);
  for (const auto& [id, count] : turns)
    CHECK(count >= 2); // 3 on average
}

TEST_CASE("a prompt joins decodes, and both stay within their limits") {
  fixture f(config_of(8, /*rows=*/10, /*chunk=*/8));
  start_decoding(f, 4);
  f.start(30);
  const auto batch = f.next();
  CHECK(batch.rows() == 10);
  CHECK(batch.draws.size() == 2);
  REQUIRE(batch.slices.size() == 3);
  CHECK(batch.slices[2].rows == 8);
  CHECK_FALSE(batch.slices[2].samples);
}

TEST_CASE("decodes leave half of the rows to waiting prompts") {
  fixture f(config_of(8, /*rows=*/4, /*chunk=*/4),
            {.stages = 1, .blocks = 256, .block_positions = 4});
  start_decoding(f, 4);
  CHECK(f.next().rows() == 4);
  fixture g(config_of(8, /*rows=*/4, /*chunk=*/4),
            {.stages = 1, .blocks = 256, .block_positions = 4});
  start_decoding(g, 4);
  g.start(10);
  const auto batch = g.next();
  CHECK(batch.rows() == 4);
  CHECK(batch.draws.size() == 2);
  CHECK(batch.slices[2].rows == 2);
}

TEST_CASE("short prompts share a micro-batch, in the order of arrival") {
  fixture f(config_of(8));
  for (const std::size_t prompt : {6, 6, 6})
    f.start(prompt);
  const auto batch = f.next();
  REQUIRE(batch.slices.size() == 3);
  CHECK(batch.rows() == 16);
  CHECK(batch.slices[2].rows == 4);
  CHECK(batch.draws.size() == 2);
  CHECK(batch.slices[0].sequence.ticket < batch.slices[1].sequence.ticket);
}

TEST_CASE("no more sequences run than there are slots, and they start in order") {
  fixture f(config_of(3));
  std::vector<ticket_id> tickets;
  for (int i = 0; i < 9; ++i)
    tickets.push_back(f.start(3, 4));
  std::vector<ticket_id> begun;
  while (auto batch = f.s.next()) {
    CHECK(f.s.load().running <= 3);
    f.answer(*batch);
    for (const auto& m : f.s.take().tokens)
      if (m.begins)
        begun.push_back(m.ticket);
  }
  CHECK(begun == tickets);
  f.check_at_rest();
}

TEST_CASE("no request overtakes a waiting prompt that needs more blocks than are free") {
  fixture f(config_of(8), {.stages = 1, .blocks = 12, .block_positions = 4});
  f.start(20, 8); // 5 blocks, 7 at its end
  const auto large = f.start(40, 8);
  const auto small = f.start(3, 8);
  std::vector<ticket_id> begun;
  while (auto batch = f.s.next()) {
    f.answer(*batch);
    for (const auto& m : f.s.take().tokens)
      if (m.begins)
        begun.push_back(m.ticket);
  }
  REQUIRE(begun.size() == 3);
  CHECK(begun[1] == large);
  CHECK(begun[2] == small);
  f.check_at_rest();
}

TEST_CASE("when blocks run out, the youngest sequence is preempted and recomputed later") {
  fixture f(config_of(8), {.stages = 1, .blocks = 8, .block_positions = 4});
  const auto old = f.start(12, 20), young = f.start(12, 20);
  std::vector<ticket_id> ends;
  bool was_redone = false;
  std::map<ticket_id, std::uint32_t> next_index;
  while (auto batch = f.s.next()) {
    for (const auto& slice : batch->slices)
      was_redone |= slice.sequence.ticket == young && slice.position == 0 && next_index[young] > 0;
    f.answer(*batch);
    for (const auto& m : f.s.take().tokens) {
      CHECK(m.index == next_index[m.ticket]++);
      if (m.finish != finish::none)
        ends.push_back(m.ticket);
    }
  }
  CHECK(was_redone);
  CHECK(f.s.load().preemptions > 0);
  CHECK(ends == std::vector<ticket_id>{old, young});
  CHECK(next_index[old] == 20);
  CHECK(next_index[young] == 20);
  f.check_at_rest();
}

TEST_CASE("a preempted sequence keeps its blocks until its step in flight is acknowledged") {
  fixture f(config_of(8), {.stages = 2, .blocks = 6, .block_positions = 4});
  f.start(8, 30);
  f.start(8, 30);
  const auto prefill = f.next();
  f.answer(prefill); // both hold 2 blocks; the next token of each needs a third
  auto a = f.next(), b = f.next();
  while (f.s.load().preemptions == 0) {
    CHECK(f.s.load().blocks_used <= 6);
    const auto before = f.s.load().blocks_used;
    f.answer(a);
    auto again = f.s.next();
    if (f.s.load().preemptions > 0) {
      CHECK_FALSE(again.has_value()); // the victim, b, is in flight
      CHECK(f.s.load().blocks_used == before);
      break;
    }
    REQUIRE(again.has_value());
    a = b;
    b = *again;
  }
  CHECK(f.s.load().running == 1);
  f.answer(b);
  f.run_all();
  f.check_at_rest();
}

TEST_CASE("a sequence alone ends by length when all blocks are full") {
  fixture f(config_of(8), {.stages = 2, .blocks = 4, .block_positions = 4});
  f.start(10, 40);
  f.run_all();
  const auto out = f.s.take();
  REQUIRE(out.tokens.size() == 7); // ids 11 to 17; the 17th cannot be computed
  CHECK(out.tokens.back().finish == finish::length);
  CHECK(out.tokens.back().tokens_total == 7);
  f.check_at_rest();
}

TEST_CASE("a step carries the history only for penalties, and masks end tokens before tokens_min") {
  fixture f(config_of(8));
  const auto ticket = f.grant();
  auto request = f.request(ticket, 3, 5);
  request.prompt_ids = {7, 8, 7};
  request.terms.sampling.frequency_penalty = 0.5f;
  request.terms.stop.min_tokens = 2;
  request.terms.stop.stop_ids = {9};
  f.s.admit(request);
  f.start(3, 5);
  const auto first = f.next();
  REQUIRE(first.draws.size() == 2);
  CHECK(first.draws[0].history == std::vector<token_count>{{7, 2, 0}, {8, 1, 0}});
  CHECK(first.draws[0].banned == std::vector<token_id>{9, 2});
  CHECK(first.draws[1].history.empty());
  CHECK(first.draws[1].banned.empty());
  f.answer(first, 8);
  auto second = f.next();
  CHECK(second.draws[0].history == std::vector<token_count>{{7, 2, 0}, {8, 1, 1}});
  f.answer(f.next());
  f.answer(second, 4);
  const auto third = f.next();
  CHECK(third.draws[0].token_index == 2);
  CHECK(third.draws[0].banned.empty());
}

TEST_CASE("running sequences keep within the token budget, counted at their full length") {
  auto config = config_of(8);
  config.max_batch_total_tokens = config.max_model_len; // 64
  fixture f(config, {.stages = 1, .blocks = 256, .block_positions = 4});
  f.start(5, 20); // 25 tokens
  f.start(5, 30); // 60 with the first
  f.start(5, 5);  // 70: waits, though there is a slot and KV
  f.start(5, 1);  // 66: does not overtake
  const auto batch = f.next();
  CHECK(batch.slices.size() == 2);
  CHECK(f.s.load().running == 2);
  CHECK(f.s.load().waiting == 2);
  CHECK(f.s.load().running_max_tokens == 60);
  CHECK(f.s.load().max_batch_total_tokens == 64);
  f.answer(batch, 2); // both end
  CHECK(f.next().slices.size() == 2);
  CHECK(f.s.load().running_max_tokens == 16);
}

TEST_CASE("tokens of the budget are taken from a lower priority only if that makes room") {
  auto config = config_of(8);
  config.max_batch_total_tokens = config.max_model_len; // 64
  config.scheduling_policy = scheduling_policy::priority;
  fixture f(config, {.stages = 1, .blocks = 256, .block_positions = 4});
  f.start(5, 35, 0); // 40
  f.start(5, 15, 5); // 20 of a lower priority
  f.answer(f.next());
  SUBCASE("not enough: the sequence of lower priority continues") {
    f.start(5, 30, 1); // 35 beside 40
    CHECK(f.next().slices.size() == 2);
    CHECK(f.s.load().running_max_tokens == 60);
  }
  SUBCASE("enough") {
    f.start(5, 15, 1); // 20 beside 40
    CHECK(f.next().slices.size() == 2);
    CHECK(f.s.load().running == 2);
    CHECK(f.s.load().waiting == 1);
    CHECK(f.s.load().running_max_tokens == 60);
  }
}
