// The copies ahead and at the switch are the ones that the sequences need. Under random requests,
// with few blocks, sharing, preemption and swap, the other memory has every position that is read
// afterwards.
#include "runtime/schedule/kv/kv_move.hpp"
#include "runtime/schedule/scheduler.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <random>

using namespace baton;
using namespace baton::schedule;

namespace {

constexpr std::uint32_t positions = 4;

// KV of one pipeline: the writer of each position of each block.
struct memory {
  std::vector<std::uint64_t> at;
  std::vector<std::vector<std::uint64_t>> swapped;

  memory(std::uint32_t blocks, std::uint32_t swap_blocks)
      : at(std::size_t{blocks} * positions), swapped(swap_blocks) {}
  auto begin_of(block_index block) {
    return at.begin() + static_cast<std::ptrdiff_t>(block * positions);
  }
  std::uint64_t& of(const slice& s, std::size_t position) {
    return at[s.blocks[position / positions] * positions + position % positions];
  }
  void copy(block_index block, memory& to) {
    std::copy_n(begin_of(block), positions, to.begin_of(block));
  }
  void run(const micro_batch& batch, std::uint64_t mark) {
    for (const auto& c : batch.copies)
      if (c.is_out)
        swapped[c.swap_block].assign(begin_of(c.block), begin_of(c.block) + positions);
      else
        std::copy_n(swapped[c.swap_block].begin(), positions, begin_of(c.block));
    for (const auto& s : batch.slices)
      for (std::uint32_t r = 0; r < s.rows; ++r)
        of(s, s.position + r) = mark + r;
  }
};

struct kv_move_world {
  std::mt19937_64 random;
  scheduler_config config;
  pipeline_shape shape;
  std::optional<scheduler> s;
  std::deque<micro_batch> queue;
  std::uint64_t requests = 0, marks = 0;
  std::size_t went_ahead = 0, went_last = 0, read_after = 0;

  explicit kv_move_world(std::uint64_t seed) : random(seed) {
    config.max_num_seqs = 1 + draw(5);
    config.max_num_batched_tokens = 4 + draw(20);
    config.prefill_chunk = 2 + draw(10);
    config.max_model_len = 60;
    config.vocabulary_size = 8;
    config.enable_prefix_caching = draw(4) != 0;
    config.num_speculative_tokens = draw(2) * 3;
    config.lookup.ngram_min = 1;
    shape = {.stages = 1 + draw(3),
             .blocks = 16 + draw(12),
             .block_positions = positions,
             .swap_blocks = draw(2) * 16};
    s.emplace(config);
    s->open_epoch({1}, shape);
  }
  std::uint32_t draw(std::uint32_t below) { return static_cast<std::uint32_t>(random() % below); }

  void come() {
    const auto answer =
        s->reserve({.request = ++requests, .gateway = {1}, .model = "toy"}, time_point{});
    const auto* g = std::get_if<granted>(&answer);
    if (!g)
      return;
    admit a;
    a.ticket = g->ticket;
    a.request = requests;
    a.gateway = {1};
    a.prompt_ids.assign(1 + draw(30), static_cast<token_id>(draw(2)));
    a.terms.stop.max_tokens = 1 + draw(20);
    a.terms.max_tokens_given = true;
    s->admit(a);
  }
  void issue() {
    while (auto batch = s->next())
      queue.push_back(std::move(*batch));
  }
  // Finishes and acknowledges the oldest step.
  void finish(const std::function<void(const micro_batch&)>& run) {
    if (queue.empty())
      return;
    const auto batch = std::move(queue.front());
    queue.pop_front();
    run(batch);
    sampled done{batch.batch, batch.epoch, {}, {}, std::nullopt};
    for (std::size_t i = 0; i < batch.draws.size(); ++i)
      done.samples.push_back({static_cast<token_id>(draw(8)), 0, {}});
    s->on_sampled(done);
    s->take();
  }
};

void move_once(std::uint64_t seed, kv_move_world& w) {
  CAPTURE(seed);
  memory before(w.shape.blocks, w.shape.swap_blocks), after(w.shape.blocks, w.shape.swap_blocks);
  kv_move move;
  std::vector<block_index> on_the_way; // ordered, not copied yet
  const auto land = [&] {
    for (const auto block : std::exchange(on_the_way, {}))
      before.copy(block, after);
  };
  for (std::uint32_t i = 100 + w.draw(200); i > 0; --i) {
    if (w.draw(4) == 0)
      w.come();
    w.issue();
    w.finish([&](const micro_batch& b) { before.run(b, w.marks += 1000); });
    if (w.draw(4) == 0)
      land();
    if (i < 100 && w.draw(3) == 0) {
      const auto more = move.ahead(w.s->held_blocks(), 1 + w.draw(4));
      w.went_ahead += more.size();
      on_the_way.insert(on_the_way.end(), more.begin(), more.end());
    }
  }
  while (w.s->has_flights())
    w.finish([&](const micro_batch& b) { before.run(b, w.marks += 1000); });
  land();
  const auto rest = move.rest(w.s->held_blocks());
  w.went_last += rest.size();
  for (const auto block : rest)
    before.copy(block, after);
  w.s->close_epoch(time_point{});
  w.s->open_epoch({2}, w.shape, loss::link, kv_fate::kept);
  for (int i = 0; i < 300; ++i) {
    if (w.draw(5) == 0)
      w.come();
    w.issue();
    w.finish([&](const micro_batch& b) {
      const auto mark = w.marks += 1000;
      before.run(b, mark);
      after.run(b, mark);
      for (const auto& slice : b.slices)
        for (std::size_t p = 0; p < slice.position; ++p, ++w.read_after)
          REQUIRE(after.of(slice, p) == before.of(slice, p));
    });
    w.s->check_integrity();
  }
}

} // namespace

TEST_CASE("sequences find every position after their KV has moved") {
  std::size_t ahead = 0, last = 0, read = 0, swapped = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    kv_move_world w(seed);
    move_once(seed, w);
    ahead += w.went_ahead;
    last += w.went_last;
    read += w.read_after;
    swapped += w.s->load().swapped_in_blocks;
  }
  CHECK(ahead > 0); // otherwise nothing was tested
  CHECK(last > 0);
  CHECK(read > 0);
  CHECK(swapped > 0);
}

TEST_CASE("a block is copied ahead once it is full, and again after it is refilled") {
  kv_move move;
  std::vector<held_block> held{{3, 1, true}, {4, 2, false}, {5, 3, true}, {6, 4, true}};
  CHECK(move.ahead(held, 2) == std::vector<block_index>{3, 5});
  CHECK(move.ahead(held, 2) == std::vector<block_index>{6});
  CHECK(move.ahead(held, 2).empty());
  CHECK(move.rest(held) == std::vector<block_index>{4});
  held[0].stamp = 9;
  held[1].is_full = true;
  CHECK(move.ahead(held, 9) == std::vector<block_index>{3, 4});
  held[2] = {5, 10, false};
  CHECK(move.ahead(held, 9).empty());
  CHECK(move.rest(held) == std::vector<block_index>{5});
}
