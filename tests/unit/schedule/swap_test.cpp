// Preemption by swap: which blocks go to swap space, which come back, and when they are forgotten.
// The end of an epoch, a failed step or the loss of a stage's swap space at any moment changes no
// token.
#include "tests/unit/schedule/fixture.hpp"
#include "tests/unit/schedule/toy_pipeline.hpp"

#include <functional>
#include <set>

using namespace baton;
using namespace baton::schedule;

namespace {

// Two sequences of 8 positions each; there is no third block for both.
pipeline_shape tight_shape(std::uint32_t swap_blocks) {
  return {.stages = 1, .blocks = 5, .block_positions = 4, .swap_blocks = swap_blocks};
}

// Runs until the younger of two has been preempted. Its blocks are on their way to swap space.
struct preempted : fixture {
  explicit preempted(std::uint32_t swap_blocks, scheduler_config config = small_config())
      : fixture(std::move(config), tight_shape(swap_blocks)) {
    older = start(5, 10);
    younger = start(5, 10);
    while (s.load().preemptions == 0) {
      carrier = next();
      if (s.load().preemptions == 0)
        answer(carrier);
    }
  }
  ticket_id older, younger;
  micro_batch carrier; // the first batch after the preemption
};

} // namespace

TEST_CASE("a preempted sequence goes to swap space in the next batch and comes back from there") {
  preempted f(8);
  CHECK(f.s.load().swapped == 1);
  CHECK(f.s.load().swap_blocks_used == 2);
  REQUIRE(f.carrier.copies.size() == 2);
  std::set<block_index> slots;
  for (const block_copy& c : f.carrier.copies) {
    CHECK(c.is_out);
    slots.insert(c.swap_block);
  }
  CHECK(slots.size() == 2);
  f.answer(f.carrier);
  micro_batch back;
  while (back.copies.empty()) {
    back = f.next();
    f.answer(back);
  }
  REQUIRE(back.copies.size() == 2);
  for (const block_copy& c : back.copies) {
    CHECK_FALSE(c.is_out);
    CHECK(slots.contains(c.swap_block));
  }
  REQUIRE(back.slices.size() == 1);
  CHECK(back.slices[0].sequence.ticket == f.younger);
  CHECK(back.slices[0].position == 8); // nothing is recomputed
  CHECK(back.slices[0].rows == 1);
  CHECK(back.slices[0].blocks[0] == back.copies[0].block);
  CHECK(back.slices[0].blocks[1] == back.copies[1].block);
  f.run_all();
  CHECK(f.s.load().swapped_out_blocks == f.s.load().swapped_in_blocks);
  CHECK(f.s.load().swap_blocks_used == 0);
  f.check_at_rest();
}

TEST_CASE("swap space that is too small is not used: the sequence is recomputed") {
  preempted f(1);
  CHECK(f.s.load().swapped == 0);
  CHECK(f.carrier.copies.empty());
  f.answer(f.carrier);
  f.run_all();
  CHECK(f.s.load().swapped_out_blocks == 0);
  CHECK(f.s.load().output_tokens == 20);
  f.check_at_rest();
}

TEST_CASE("a sequence in flight goes to swap space when its rows have come back") {
  auto config = small_config();
  config.max_num_batched_tokens = 16;
  fixture f(config, {.stages = 2, .blocks = 5, .block_positions = 4, .swap_blocks = 8});
  f.start(7, 10);
  f.start(7, 10);
  f.answer(f.next());
  const auto younger_first = f.next(); // of two stages, each takes one sequence a batch
  const auto other = f.next();
  f.answer(younger_first);
  f.answer(other);
  while (f.s.load().preemptions == 0) {
    auto a = f.s.next();
    auto b = f.s.next();
    f.s.check_integrity();
    if (a)
      f.answer(*a);
    if (b)
      f.answer(*b);
  }
  f.run_all();
  CHECK(f.s.load().swapped_out_blocks > 0);
  CHECK(f.s.load().output_tokens == 20);
  f.check_at_rest();
}

TEST_CASE("blocks in the prefix cache do not come from swap space") {
  auto config = small_config();
  config.enable_prefix_caching = true;
  fixture f(config, tight_shape(8));
  const auto with_prompt = [&](token_id first) {
    auto a = f.request(f.grant());
    a.prompt_ids = {first, 1, 1, 1, 1};
    f.s.admit(a);
  };
  with_prompt(3);
  with_prompt(4);
  std::size_t out = 0, in = 0;
  while (auto batch = f.s.next()) {
    for (const block_copy& c : batch->copies)
      ++(c.is_out ? out : in);
    f.answer(*batch);
  }
  CHECK(out == 2);
  CHECK(in < out);
  CHECK(f.s.load().output_tokens == 20);
  f.check_at_rest();
}

TEST_CASE("a sequence that ends frees its swap slots") {
  preempted f(8);
  f.answer(f.carrier);
  cancel gone;
  gone.ticket = f.younger;
  f.s.cancel(gone);
  f.s.check_integrity();
  CHECK(f.s.load().swap_blocks_used == 0);
  f.run_all();
  f.check_at_rest();
}

TEST_CASE("copies of a failed step are not trusted") {
  preempted f(8);
  f.answer_failure(f.carrier); // only of the older one: it ends
  CHECK(f.s.load().swapped == 0);
  CHECK(f.s.load().swap_blocks_used == 0);
  const auto again = f.next();
  CHECK(again.copies.empty());
  CHECK(again.slices[0].sequence.ticket == f.younger);
  CHECK(again.slices[0].position == 0);
  f.answer(again);
  f.run_all();
  f.check_at_rest();
}

TEST_CASE("a step that copies back what a failed step should have copied out blames no request") {
  auto config = small_config();
  config.max_num_batched_tokens = 16;
  fixture f(config, {.stages = 3, .blocks = 7, .block_positions = 4, .swap_blocks = 8});
  for (int i = 0; i < 3; ++i)
    f.start(5, 10);
  std::map<batch_id, micro_batch> out;
  std::optional<micro_batch> carrier, back;
  for (int i = 0; i < 200 && !back; ++i) {
    while (auto batch = f.s.next()) {
      const bool is_out = !batch->copies.empty() && batch->copies[0].is_out;
      auto& kept = is_out ? carrier : back;
      if (!batch->copies.empty())
        kept = std::move(batch);
      else
        out.emplace(batch->batch, std::move(*batch));
    }
    if (!out.empty()) {
      f.answer(out.begin()->second);
      out.erase(out.begin());
    } else if (carrier && !back) { // one ends that is not in it, which makes room
      cancel gone;
      gone.ticket = {carrier->slices[0].sequence.ticket.value == 1 ? 2U : 1U};
      f.s.cancel(gone);
    }
  }
  REQUIRE(carrier);
  REQUIRE(back);
  REQUIRE(back->slices.size() == 1);
  f.answer_failure(*carrier); // alone: its sequence ends
  f.answer_failure(*back);
  for (const auto& [number, batch] : out)
    f.answer(batch);
  f.run_all();
  std::map<ticket_id, std::uint32_t> tokens;
  for (const auto& m : f.s.take().tokens)
    tokens[m.ticket] += static_cast<std::uint32_t>(m.samples.size());
  CHECK(tokens.at({3}) == 10);
  f.check_at_rest();
}

TEST_CASE("the end of an epoch clears swap space, even if KV was kept") {
  preempted f(8);
  SUBCASE("while swapping out") {}
  SUBCASE("swapped out") {
    f.answer(f.carrier);
  }
  f.s.close_epoch(f.now);
  f.s.check_integrity();
  CHECK(f.s.load().swapped == 0);
  f.s.open_epoch({2}, tight_shape(8), loss::link, kv_fate::kept);
  CHECK(f.s.load().swap_blocks_used == 0);
  f.run_all();
  CHECK(f.s.load().output_tokens == 20);
  f.check_at_rest();
}

TEST_CASE("the end of an epoch while swapping in: those blocks are invalid") {
  preempted f(8);
  f.answer(f.carrier);
  micro_batch back;
  while (back.copies.empty()) {
    back = f.next();
    if (back.copies.empty())
      f.answer(back);
  }
  f.s.close_epoch(f.now);
  f.s.open_epoch({2}, tight_shape(8), loss::link, kv_fate::kept);
  const auto again = f.next();
  CHECK(again.copies.empty());
  REQUIRE(again.slices.size() == 1);
  CHECK(again.slices[0].position == 0);
  f.answer(again);
  f.run_all();
  f.check_at_rest();
}

namespace {

// Six sequences in few blocks over two toy stages; `disturb` is called before each event.
// Returns the number of events.
struct squeezed {
  static constexpr std::uint32_t sequences = 6;
  engine::toy_model model{.seed = 5, .layers = 2, .vocabulary_size = 100};
  engine::toy_memory memory{
      .blocks = 9, .block_positions = 4, .rows_max = 32, .max_model_len = 64, .swap_blocks = 12};
  pipeline_shape shape{.stages = 2, .blocks = 9, .block_positions = 4, .swap_blocks = 12};

  std::size_t run(const std::function<void(std::size_t, fixture&, toy_pipeline&)>& disturb) {
    auto config = small_config();
    config.async_scheduling = true;
    config.max_num_queued_reqs = sequences;
    fixture f(config, shape);
    toy_pipeline pipeline(model, memory);
    std::map<ticket_id, std::vector<token_id>> prompts, outputs;
    for (std::uint32_t i = 0; i < sequences; ++i) {
      auto a = f.request(f.grant(), 6, 9);
      for (std::size_t k = 0; k < a.prompt_ids.size(); ++k)
        a.prompt_ids[k] = static_cast<token_id>(10 + i + k);
      a.terms.stop.ignore_eos = true;
      a.terms.sampling.temperature = 0;
      prompts[a.ticket] = a.prompt_ids;
      f.s.admit(a);
    }
    std::size_t events = 0;
    for (; !f.s.is_idle(); ++events) {
      REQUIRE(events < 3000);
      disturb(events, f, pipeline);
      if (auto batch = f.s.next())
        pipeline.feed.push(std::move(*batch));
      pipeline.step(static_cast<stage_index>(events % 2));
      if (events % 3 != 0 && !pipeline.results.empty()) {
        f.s.on_sampled(pipeline.results.front());
        pipeline.results.pop_front();
      }
      f.s.check_integrity();
      for (const auto& m : f.s.take().tokens)
        for (const sample& drawn : m.samples)
          outputs[m.ticket].push_back(drawn.token);
    }
    for (const auto& [ticket, prompt] : prompts) {
      sampling_params greedy;
      greedy.temperature = 0;
      CHECK(outputs[ticket] == engine::toy_continuation(model, prompt, greedy, 9));
    }
    swapped_in = f.s.load().swapped_in_blocks;
    f.check_at_rest();
    return events;
  }
  std::uint64_t swapped_in = 0;
};

} // namespace

TEST_CASE("an epoch may end before any event, also twice: the tokens are the same") {
  squeezed quiet;
  const std::size_t events = quiet.run([](std::size_t, fixture&, toy_pipeline&) {});
  CHECK(quiet.swapped_in > 4); // it has tested something
  for (std::size_t at = 0; at < events; ++at) {
    CAPTURE(at);
    std::uint64_t epoch = 1;
    squeezed().run([&](std::size_t event, fixture& f, toy_pipeline& pipeline) {
      if (event != at && event != at + 7)
        return;
      f.s.close_epoch(f.now);
      f.s.check_integrity();
      pipeline.forget_steps();
      f.s.open_epoch({++epoch}, squeezed().shape, loss::link, kv_fate::kept);
    });
  }
}
