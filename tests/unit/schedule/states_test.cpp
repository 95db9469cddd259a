// Recurrent states in slots: those of a step, of waiting sequences and of cached prefixes.
// random_test.cpp has them under random events.
#include "tests/unit/schedule/fixture.hpp"

#include <algorithm>
#include <random>
#include <set>

using namespace baton;
using namespace baton::schedule;

namespace {

pipeline_shape states_shape(std::uint32_t slots, std::uint32_t stages = 1) {
  return {.stages = stages, .blocks = 64, .block_positions = 4, .state_slots = slots};
}

scheduler_config caching_config() {
  auto c = small_config();
  c.enable_prefix_caching = true;
  return c;
}

std::vector<token_id> ids_from(token_id first, std::size_t count) {
  std::vector<token_id> ids;
  for (std::size_t i = 0; i < count; ++i)
    ids.push_back(first + static_cast<token_id>(i));
  return ids;
}

struct states_fixture : fixture {
  explicit states_fixture(std::uint32_t slots, scheduler_config config = small_config(),
                          std::uint32_t stages = 1)
      : fixture(std::move(config), states_shape(slots, stages)) {}

  ticket_id ask(const std::vector<token_id>& ids, std::uint32_t max_tokens = 1) {
    auto a = request(grant(), 1, max_tokens);
    a.prompt_ids = ids;
    s.admit(a);
    return a.ticket;
  }
  // The next batch, of one slice.
  slice next_slice() {
    batch = next();
    REQUIRE(batch.slices.size() == 1);
    return batch.slices[0];
  }
  void open_again(std::uint32_t slots, kv_fate kv) {
    s.close_epoch(now);
    s.check_integrity();
    open(slots, kv);
  }
  void open(std::uint32_t slots, kv_fate kv) {
    s.open_epoch({++epoch}, states_shape(slots), loss::link, kv);
    s.check_integrity();
  }
  micro_batch batch;
  std::uint64_t epoch = 1;
};

} // namespace

TEST_CASE("each step goes from the slot of the step before it to another") {
  states_fixture f(4);
  f.start(5, 6);
  slice before = f.next_slice();
  CHECK(before.state_from == 0);
  CHECK(before.state_to != 0);
  std::set<std::uint32_t> seen{before.state_to};
  for (int i = 0; i < 5; ++i) {
    f.answer(f.batch);
    const auto now = f.next_slice();
    CHECK(now.state_from == before.state_to);
    CHECK(now.state_to != now.state_from);
    seen.insert(now.state_to);
    before = now;
  }
  CHECK(seen.size() == 2); // the acknowledged one and the next
  f.answer(f.batch);
  f.check_at_rest();
}

TEST_CASE("a model without states names no slots") {
  fixture f;
  f.start(5, 2);
  const auto batch = f.next();
  CHECK(batch.slices[0].state_from == 0);
  CHECK(batch.slices[0].state_to == 0);
}

TEST_CASE("as many sequences run as find two slots each") {
  for (const std::uint32_t slots : {2U, 3U, 5U}) {
    states_fixture f(slots);
    for (int i = 0; i < 3; ++i)
      f.start(5, 4);
    const auto batch = f.next();
    CHECK(batch.slices.size() == slots / 2);
    CHECK(f.s.load().running == slots / 2);
    f.answer(batch);
    f.run_all();
    CHECK(f.s.load().output_tokens == 12);
    f.check_at_rest();
  }
}

TEST_CASE("a step ahead of the tokens takes an unclaimed slot") {
  auto config = small_config();
  config.async_scheduling = true;
  const auto is_ahead = [&](std::uint32_t slots, int sequences) {
    states_fixture f(slots, config);
    for (int i = 0; i < sequences; ++i)
      f.start(5, 4);
    f.answer(f.next());
    const auto first = f.next();
    const auto ahead = f.s.next();
    f.s.check_integrity();
    if (ahead) {
      CHECK(ahead->slices[0].state_from == first.slices[0].state_to);
      f.answer(first);
      f.answer(*ahead);
    } else {
      f.answer(first);
    }
    f.run_all();
    f.check_at_rest();
    return ahead.has_value();
  };
  CHECK_FALSE(is_ahead(2, 1));
  CHECK(is_ahead(3, 1));
  CHECK_FALSE(is_ahead(4, 2));
  CHECK(is_ahead(5, 2));
}

TEST_CASE("the next sequence in line finds two slots as soon as it could") {
  auto config = small_config();
  config.async_scheduling = true;
  config.max_num_seqs = 2;
  states_fixture f(4, config, /*stages=*/3);
  f.start(40, 4); // its chunks may occupy all slots
  std::vector<micro_batch> out;
  while (auto batch = f.s.next())
    out.push_back(*batch);
  CHECK(out.size() == 3);
  f.start(5, 4);
  CHECK_FALSE(f.s.next());
  f.answer(out[0]); // three are held: the younger one needs another
  CHECK_FALSE(f.s.next());
  f.answer(out[1]);
  CHECK(f.next().slices[0].sequence.ticket.value == 2);
}

TEST_CASE("draft tokens are not proposed to a model with states") {
  auto config = small_config();
  config.num_speculative_tokens = 3;
  config.lookup.ngram_min = 1;
  states_fixture f(4, config);
  f.start(8, 8); // repeats itself
  f.run_all(11);
  CHECK(f.s.load().spec_decode_draft_tokens == 0);
  CHECK(f.s.load().output_tokens == 8);
}

TEST_CASE("a prompt continues from the state behind the longest cached prefix that has one") {
  states_fixture f(8, caching_config());
  f.ask(ids_from(10, 11));
  auto first = f.next_slice(); // up to the last border that another prompt may continue from
  CHECK(first.rows == 8);
  f.answer(f.batch);
  CHECK(f.next_slice().rows == 3);
  f.answer(f.batch);
  f.s.take();
  auto longer = ids_from(10, 9);
  longer.push_back(70);
  longer.push_back(71);
  f.ask(longer);
  const auto second = f.next_slice();
  CHECK(second.position == 8);
  CHECK(second.state_from == first.state_to);
  f.answer(f.batch);
  CHECK(f.s.take().tokens.front().cached_tokens == 8);
  // Its blocks are known up to 4 and 8, a state only behind 8.
  f.ask(ids_from(10, 7));
  CHECK(f.next_slice().position == 0);
  f.answer(f.batch);
  f.run_all();
  f.check_at_rest();
}

TEST_CASE("several sequences continue from one state, which stays while any of them needs it") {
  states_fixture f(8, caching_config());
  f.ask(ids_from(10, 9));
  const auto first = f.next_slice();
  CHECK(first.rows == 8);
  f.answer(f.batch);
  f.run_all();
  for (const token_id last : {60, 61}) {
    auto ids = ids_from(10, 8);
    ids.push_back(last);
    f.ask(ids, 3);
  }
  auto both = f.next();
  REQUIRE(both.slices.size() == 2);
  for (const auto& s : both.slices) {
    CHECK(s.position == 8);
    CHECK(s.state_from == first.state_to);
  }
  f.open_again(8, kv_fate::kept); // the step is redone
  const auto again = f.next();
  REQUIRE(again.slices.size() == 2);
  CHECK(again.slices == both.slices);
  f.answer(again);
  f.run_all();
  f.check_at_rest();
}

TEST_CASE("states of prefixes are given up, the least recently used first") {
  states_fixture f(3, caching_config());
  const auto rows_from = [&](token_id first) {
    f.ask(ids_from(first, 5));
    const auto at = f.next_slice().position;
    f.answer(f.batch);
    f.run_all();
    return at;
  };
  CHECK(rows_from(10) == 0);
  CHECK(rows_from(30) == 0); // two snapshots, and a slot
  CHECK(rows_from(10) == 4);
  CHECK(rows_from(50) == 0); // takes that slot and the one of 30
  CHECK(rows_from(10) == 4);
  CHECK(rows_from(30) == 0);
  f.check_at_rest();
}

TEST_CASE("a sequence that decodes keeps one state of its output for others, its last one") {
  states_fixture f(16, caching_config());
  f.ask(ids_from(10, 9), 20); // and 20 tokens, each 5
  f.run_all();
  auto ids = ids_from(10, 9);
  ids.insert(ids.end(), 12, 5);
  f.ask(ids); // the state after 16 is gone and that after 28 is too far: the prompt's remains
  CHECK(f.next_slice().position == 8);
  f.answer(f.batch);
  f.run_all();
  ids.insert(ids.end(), 20, 5);
  f.ask(ids);
  CHECK(f.next_slice().position == 28);
  f.answer(f.batch);
  f.run_all();
  f.check_at_rest();
}

TEST_CASE("with kept KV a step is redone from the same slot, else all from the zero state") {
  states_fixture f(6);
  f.start(5, 6);
  f.answer(f.next());
  const auto lost = f.next_slice();
  f.open_again(6, kv_fate::kept);
  CHECK(f.next_slice() == lost); // also into the same slot: stage 0 may have sent its rows
  f.open_again(6, kv_fate::lost);
  CHECK(f.next_slice().state_from == 0);
  f.answer(f.batch);
  f.open_again(8, kv_fate::kept); // another memory
  CHECK(f.next_slice().state_from == 0);
  f.answer(f.batch);
  f.run_all();
  CHECK(f.s.load().output_tokens == 6);
  f.check_at_rest();
}

TEST_CASE("a step that lands after the end of its epoch leaves its state in its slot") {
  states_fixture f(6);
  f.start(5, 6);
  f.answer(f.next());
  const auto late = f.next_slice();
  f.s.close_epoch(f.now);
  f.answer(f.batch);
  f.open(6, kv_fate::kept);
  CHECK(f.next_slice().state_from == late.state_to);
  f.answer(f.batch);
  f.run_all();
  CHECK(f.s.load().output_tokens == 6);
  f.check_at_rest();
}

TEST_CASE("a failed step is redone from the state before it, and so are those behind it") {
  auto config = small_config();
  config.async_scheduling = true;
  states_fixture f(8, config);
  f.start(5, 6);
  f.start(5, 6);
  f.answer(f.next());
  const auto failed = f.next();
  const auto behind = f.s.next();
  REQUIRE(behind);
  f.answer_failure(failed);
  f.answer(*behind);
  const auto again = f.next(); // each alone
  CHECK(again.slices.size() == 1);
  CHECK(again.slices[0].position == failed.slices[0].position);
  CHECK(again.slices[0].state_from == failed.slices[0].state_from);
  f.answer(again);
  f.run_all();
  CHECK(f.s.load().output_tokens == 12);
  f.check_at_rest();
}

namespace {

// The younger of two is preempted for blocks: 5 of 4 positions, for two sequences of 8 at most.
struct preempted_state : fixture {
  explicit preempted_state(std::uint32_t swap_blocks)
      : fixture(make_config(), {.stages = 1,
                                .blocks = 5,
                                .block_positions = 4,
                                .swap_blocks = swap_blocks,
                                .state_slots = 4}) {
    start(5, 10);
    younger = start(5, 10);
    while (s.load().preemptions == 0) {
      const auto batch = next();
      for (const auto& each : batch.slices)
        if (each.sequence.ticket == younger)
          last = each;
      answer(batch);
    }
  }
  static scheduler_config make_config() {
    auto c = small_config();
    c.scheduling_policy = scheduling_policy::priority;
    return c;
  }
  // The next slice of the younger one.
  slice back() {
    for (;;) {
      const auto batch = next();
      answer(batch);
      for (const auto& each : batch.slices)
        if (each.sequence.ticket == younger)
          return each;
    }
  }
  ticket_id younger;
  slice last; // before it was preempted
};

} // namespace

TEST_CASE("a preempted sequence keeps its state while it waits in swap space") {
  preempted_state f(8);
  const auto again = f.back();
  CHECK(again.position == 8);
  CHECK(again.state_from == f.last.state_to);
  f.run_all();
  f.check_at_rest();
}

TEST_CASE("without room in swap space its state is of no use: it starts over") {
  preempted_state f(0);
  CHECK(f.back().state_from == 0);
  f.run_all();
  f.check_at_rest();
}

TEST_CASE("a running sequence takes the slot of one that waits, which starts over") {
  preempted_state f(8);
  CHECK(f.s.load().swapped == 1);
  f.start(1, 3, /*priority=*/-1);
  f.answer(f.next());
  CHECK(f.s.load().swapped == 1);
  const auto batch = f.next(); // two run, with two slots each
  CHECK(batch.slices.size() == 2);
  CHECK(f.s.load().swapped == 0);
  CHECK(f.s.load().swap_blocks_used == 0);
  f.answer(batch);
  CHECK(f.back().state_from == 0);
  f.run_all();
  CHECK(f.s.load().output_tokens == 23);
  f.check_at_rest();
}

TEST_CASE("the account of slots is consistent after any calls") {
  std::mt19937_64 random(3);
  const auto draw = [&](std::size_t below) { return static_cast<std::size_t>(random() % below); };
  for (std::uint32_t slots = 2; slots < 14; ++slots) {
    CAPTURE(slots);
    state_slots account(slots);
    std::map<std::uint64_t, std::vector<state_slot>> running; // with those in flight
    std::uint64_t prefix = 0, sequences = 0;
    for (int i = 0; i < 2000; ++i) {
      account.check_integrity();
      CHECK(account.used() <= account.total());
      if (draw(6) == 0 && account.can_run()) {
        const sequence_id id{{++sequences}, 0};
        if (prefix > 0 && draw(2) == 0)
          if (const auto at = 1 + draw(prefix); account.has_snapshot(at))
            account.adopt(id, at);
        account.run(id);
        running[sequences];
      }
      if (running.empty())
        continue;
      auto it = std::next(running.begin(), static_cast<std::ptrdiff_t>(draw(running.size())));
      auto& [number, flying] = *it;
      const sequence_id id{{number}, 0};
      if (draw(3) > 0 && (account.held(id) < 2 || account.unclaimed() > 0)) {
        const auto from = account.last(id);
        REQUIRE(account.free() > 0); // a running sequence finds one
        flying.push_back(account.issue(id));
        CHECK(flying.back() != from);
      } else if (!flying.empty()) {
        const auto slot = flying.front();
        flying.erase(flying.begin());
        if (draw(5) == 0) {
          account.discard(id, slot);
          for (const auto behind : std::exchange(flying, {}))
            account.discard(id, behind);
        } else {
          account.acknowledge(id, slot);
          CHECK(account.acknowledged(id) == slot);
          if (draw(3) == 0)
            account.publish(id, ++prefix, draw(2) == 0);
        }
      } else if (draw(3) == 0) {
        account.release(id);
        running.erase(it);
      }
      if (draw(50) == 0) {
        account.forget_ahead();
        for (auto& [other, slots_of] : running)
          slots_of.clear();
      }
    }
    for (const auto& [number, flying] : running)
      account.release({{number}, 0});
    account.check_integrity();
    CHECK(account.used() == 0);
  }
}
