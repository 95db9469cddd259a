// The effect of results: ends, duplicates, stale epochs, failed steps, lost pipelines.
#include "schema/result.hpp"
#include "tests/unit/schedule/fixture.hpp"

#include <set>

using namespace baton;
using namespace baton::schedule;
using namespace std::chrono_literals;

TEST_CASE("a sequence ends at its end tokens, its token limit or its context") {
  struct row {
    const char* what;
    stopping stop;
    token_id token;
    finish how;
    std::uint32_t total;
  };
  const row rows[] = {
      {"end of sequence", {.max_tokens = 6, .stop_ids = {}, .stop_texts = {}}, 2, finish::stop, 1},
      {"ignored end",
       {.max_tokens = 6, .ignore_eos = true, .stop_ids = {}, .stop_texts = {}},
       2,
       finish::length,
       6},
      {"stop id", {.max_tokens = 6, .stop_ids = {4, 9}, .stop_texts = {}}, 9, finish::stop, 1},
      {"stop id beside ignored end",
       {.max_tokens = 6, .ignore_eos = true, .stop_ids = {9}, .stop_texts = {}},
       9,
       finish::stop,
       1},
      {"not before tokens_min",
       {.max_tokens = 6, .min_tokens = 3, .stop_ids = {9}, .stop_texts = {}},
       9,
       finish::stop,
       4},
      {"bound", {.max_tokens = 1, .stop_ids = {}, .stop_texts = {}}, 5, finish::length, 1},
  };
  for (const auto& r : rows) {
    CAPTURE(r.what);
    fixture f;
    auto request = f.request(f.grant());
    request.terms.stop = r.stop;
    f.s.admit(request);
    f.run_all(r.token);
    const auto out = f.s.take();
    REQUIRE(out.tokens.size() == r.total);
    for (std::uint32_t i = 0; i < r.total; ++i) {
      CHECK(out.tokens[i].index == i);
      CHECK(out.tokens[i].begins == (i == 0));
      CHECK(out.tokens[i].samples.size() == 1);
      CHECK((out.tokens[i].finish == finish::none) == (i + 1 < r.total));
    }
    CHECK(out.tokens.back().finish == r.how);
    CHECK(out.tokens.back().tokens_total == r.total);
    f.check_at_rest();
  }
}

TEST_CASE("the first message of a choice has all data for the detokenizer") {
  fixture f;
  auto request = f.request(f.grant());
  request.terms.sampling.logprobs = 3;
  request.terms.stop.stop_texts = {"END"};
  f.s.admit(request);
  const auto batch = f.next();
  sampled step;
  step.batch = batch.batch;
  step.epoch = batch.epoch;
  step.samples = {{.token = 6, .logprob = -0.5f, .top = {{6, -0.5f}, {7, -1.5f}}}};
  step.stage_micros = {100, 40};
  f.s.on_sampled(step);
  const auto out = f.s.take();
  REQUIRE(out.tokens.size() == 1);
  const auto& m = out.tokens[0];
  CHECK(m.begins);
  CHECK(m.request == request.request);
  CHECK(m.gateway == process_id{7});
  CHECK(m.prompt_tokens == 5);
  CHECK(m.stopping == request.terms.stop);
  CHECK(m.logprobs == 3);
  CHECK(m.samples == step.samples);
  CHECK(f.s.load().stage_busy_micros == std::vector<std::uint64_t>{100, 40});
  CHECK(f.s.load().steps == 1);
}

TEST_CASE("duplicates and results of an earlier epoch are counted and change nothing") {
  fixture f;
  f.start();
  const auto first = f.next();
  f.answer(first);
  f.answer(first);
  CHECK(f.s.counted().duplicate_results == 1);
  const auto second = f.next();
  f.s.close_epoch(f.now);
  f.answer(first);
  f.s.open_epoch({2}, small_shape);
  f.answer(second);
  CHECK(f.s.counted().stale_results == 2);
  CHECK(f.s.take().tokens.size() == 1);
  f.run_all();
  CHECK(f.s.take().tokens.size() == 9);
  f.check_at_rest();
}

TEST_CASE("a step whose result arrives before the next epoch opens is not repeated, even if the KV "
          "is lost") {
  for (const auto kv : {kv_fate::kept, kv_fate::lost}) {
    CAPTURE(kv == kv_fate::kept);
    fixture f;
    f.start();
    f.answer(f.next());
    const auto second = f.next();
    f.s.close_epoch(f.now);
    f.answer(second);
    f.answer(second); // once
    CHECK(f.s.counted().stale_results == 1);
    CHECK(f.s.take().tokens.size() == 2);
    f.s.check_integrity();
    f.s.open_epoch({2}, small_shape, loss::shard, kv);
    const auto third = f.next();
    CHECK(third.slices[0].position == (kv == kv_fate::kept ? second.slices[0].position + 1 : 0));
    f.answer(third);
    f.run_all();
    CHECK(f.s.take().tokens.size() == 8);
    f.check_at_rest();
  }
}

TEST_CASE("a late result changes nothing for a sequence that has ended meanwhile") {
  fixture f;
  const auto ticket = f.start();
  const auto first = f.next();
  f.s.close_epoch(f.now);
  cancel gone;
  gone.ticket = ticket;
  f.s.cancel(gone);
  (void)f.s.take();
  f.answer(first);
  CHECK(f.s.take().tokens.empty());
  f.s.open_epoch({2}, small_shape);
  f.check_at_rest();
}

TEST_CASE("a step whose failure arrives late is repeated") {
  fixture f;
  f.start();
  const auto first = f.next();
  f.s.close_epoch(f.now);
  f.s.on_sampled({first.batch, first.epoch, {}, {}, fail(errc::internal, "no")});
  CHECK(f.s.counted().stale_results == 1);
  f.s.open_epoch({2}, small_shape);
  f.run_all();
  CHECK(f.s.take().tokens.size() == 10);
  f.check_at_rest();
}

TEST_CASE("after results out of order, rows that are not acknowledged run again") {
  fixture f;
  f.start(40);
  const auto first = f.next(), second = f.next();
  f.answer(second);
  CHECK_FALSE(f.s.next().has_value()); // not before the other is acknowledged
  f.answer(first);
  const auto again = f.next();
  CHECK(again.slices[0].position == 0);
  f.answer(again);
  f.run_all();
  CHECK(f.s.take().tokens.size() == 10);
  f.check_at_rest();
}

TEST_CASE("after a loss of KV, the log reproduces the same steps") {
  fixture f;
  const auto ticket = f.start(20);
  for (int i = 0; i < 5; ++i)
    f.answer(f.next(), static_cast<token_id>(20 + i));
  const auto lost = f.next();
  f.s.close_epoch(f.now);
  f.s.check_integrity();
  CHECK_FALSE(f.s.next().has_value());
  CHECK_FALSE(f.s.is_open());
  f.s.open_epoch({2}, {.stages = 1, .blocks = 20, .block_positions = 8});
  CHECK(f.s.load().blocks_used == 0);
  std::vector<token_id> tokens;
  std::uint32_t position = 0;
  micro_batch last;
  do {
    last = f.next();
    CHECK(last.epoch == epoch_id{2});
    REQUIRE(last.slices.size() == 1);
    CHECK(last.slices[0].position == position);
    position += last.rows();
    tokens.insert(tokens.end(), last.tokens.begin(), last.tokens.end());
    if (last.draws.empty())
      f.answer(last);
  } while (last.draws.empty());
  CHECK(position == lost.slices[0].position + 1);
  CHECK(tokens.back() == lost.tokens.back());
  CHECK(last.draws == lost.draws);
  (void)f.s.take();
  f.answer(last);
  const auto out = f.s.take();
  REQUIRE(out.tokens.size() == 1);
  CHECK(out.tokens[0].ticket == ticket);
  CHECK(out.tokens[0].index == 4);
  CHECK_FALSE(out.tokens[0].begins);
}

TEST_CASE("after a loss, running sequences go before waiting ones") {
  auto config = small_config();
  config.max_num_seqs = 2;
  fixture f(config);
  const auto late = f.grant(); // an older ticket whose request arrives late
  const auto a = f.start(), b = f.start();
  f.answer(f.next());
  f.s.admit(f.request(late));
  f.s.close_epoch(f.now);
  f.s.open_epoch({2}, small_shape);
  const auto batch = f.next();
  REQUIRE(batch.slices.size() == 2);
  CHECK(batch.slices[0].sequence.ticket == a);
  CHECK(batch.slices[1].sequence.ticket == b);
  f.answer(batch);
  f.run_all();
  f.check_at_rest();
}

TEST_CASE("a pipeline that comes back smaller ends sequences that no longer fit") {
  fixture f;
  f.start(30, 20);
  f.start(30, 20);
  f.start(6, 4);
  f.answer(f.next());
  f.answer(f.next()); // 30 + 2 rows of prompts are done: the first has a token
  f.s.close_epoch(f.now);
  (void)f.s.take();
  f.s.open_epoch({2}, {.stages = 2, .blocks = 4, .block_positions = 4});
  f.s.check_integrity();
  const auto out = f.s.take();
  REQUIRE(out.tokens.size() == 1);
  CHECK(out.tokens[0].finish == finish::length);
  CHECK(out.tokens[0].tokens_total == 1);
  REQUIRE(out.refusals.size() == 1);
  CHECK(out.refusals[0].message.reason.code == errc::context_length_exceeded);
  f.run_all();
  CHECK(f.s.take().tokens.size() == 4);
  f.check_at_rest();
}

TEST_CASE("tickets wait for the pipeline until recovery_timeout, then end with pipeline_lost") {
  fixture f;
  f.start();
  f.start();
  f.answer(f.next());
  (void)f.s.take();
  f.s.close_epoch(f.now);
  f.now += 59s;
  f.s.tick(f.now);
  CHECK(f.s.take().tokens.empty());
  f.grant();
  f.now += 1s;
  f.s.tick(f.now);
  const auto out = f.s.take();
  CHECK(out.refusals.size() == 1);
  REQUIRE(out.tokens.size() == 2);
  for (const auto& m : out.tokens) {
    CHECK(m.finish == finish::failed);
    CHECK(m.failure->code == errc::pipeline_lost);
  }
  CHECK(f.refused() == errc::not_ready);
  f.check_at_rest();
}

TEST_CASE("requests of an unloaded model wait until it is loaded, at most load_timeout") {
  auto config = small_config();
  config.load_timeout = 90s;
  fixture f(config);
  const auto first = f.start();
  f.run_all();
  (void)f.s.take();
  f.s.close_epoch(f.now);
  f.s.unload();
  f.now += 3600s; // recovery_timeout does not count
  f.s.tick(f.now);
  CHECK_FALSE(f.s.is_known(first));

  const auto waits = f.start();
  f.now += 80s; // beyond queue_deadline
  f.s.tick(f.now);
  const auto joins = f.start();
  CHECK(f.s.load().waiting == 2);
  f.s.open_epoch({2}, small_shape);
  f.run_all();
  CHECK(f.s.take().tokens.size() > 2);
  CHECK_FALSE(f.s.is_known(waits));
  CHECK_FALSE(f.s.is_known(joins));

  f.s.close_epoch(f.now);
  f.s.unload();
  f.start();
  f.s.tick(f.now);
  f.now += 90s;
  f.s.tick(f.now);
  const auto out = f.s.take();
  REQUIRE(out.refusals.size() == 1);
  CHECK(out.refusals[0].message.reason.code == errc::not_ready);
  CHECK(out.refusals[0].message.reason.message == "the model was not loaded within 90000 ms");
  f.check_at_rest();
}

TEST_CASE("a model that cannot be loaded ends the requests that wait for it, and no others") {
  auto config = small_config();
  config.load_timeout = 90s;
  fixture f(config);
  f.start();
  f.s.refuse_load(fail(errc::does_not_fit, "no room")); // it is loaded
  CHECK(f.s.take().refusals.empty());
  f.run_all();
  (void)f.s.take();
  f.s.close_epoch(f.now);
  f.s.refuse_load(fail(errc::does_not_fit, "no room")); // it recovers
  f.s.unload();
  f.start();
  f.s.refuse_load(fail(errc::does_not_fit, "no room"));
  const auto out = f.s.take();
  REQUIRE(out.refusals.size() == 1);
  CHECK(out.refusals[0].message.reason.message == "no room");
  f.check_at_rest();
}

TEST_CASE("a step that fails alone ends its sequence, others of a failed batch are retried alone") {
  fixture f;
  const auto a = f.start(5, 3), b = f.start(5, 3), c = f.start(5, 3);
  const auto together = f.next();
  REQUIRE(together.slices.size() == 3);
  f.answer_failure(together);
  CHECK(f.s.take().refusals.empty());
  std::set<ticket_id> tried;
  for (int i = 0; i < 3; ++i) {
    const auto alone = f.next();
    REQUIRE(alone.slices.size() == 1);
    CHECK(alone.slices[0].position == 0);
    CHECK_FALSE(f.s.next().has_value()); // nothing beside it
    tried.insert(alone.slices[0].sequence.ticket);
    if (alone.slices[0].sequence.ticket == b)
      f.answer_failure(alone, errc::internal);
    else
      f.answer(alone);
  }
  CHECK(tried == std::set{a, b, c});
  auto out = f.s.take();
  REQUIRE(out.refusals.size() == 1);
  CHECK(out.refusals[0].message.ticket == b);
  CHECK(out.refusals[0].message.reason.message == "broken");
  CHECK(out.tokens.size() == 2);
  f.run_all(); // the others run together again
  CHECK(f.s.take().tokens.size() == 4);
  f.check_at_rest();
}

TEST_CASE("a failed chunk discards the chunks in flight after it") {
  fixture f;
  f.start(3);
  f.start(40);
  const auto first = f.next(), second = f.next();
  REQUIRE(first.slices.size() == 2);
  CHECK(second.slices[0].position == 13);
  f.answer_failure(first);
  // Only the long one has rows in flight; the other is retried when they are acknowledged.
  CHECK_FALSE(f.s.next().has_value());
  f.answer(second);
  for (const std::size_t rows : {3u, 16u}) {
    const auto alone = f.next();
    REQUIRE(alone.slices.size() == 1);
    CHECK(alone.slices[0].position == 0);
    CHECK(alone.rows() == rows);
    f.answer(alone);
  }
  f.run_all();
  CHECK(f.s.take().tokens.size() == 20);
  f.check_at_rest();
}

TEST_CASE("a result with too few, too many or unknown tokens counts as a failed step") {
  for (const int what : {0, 1, 2}) {
    fixture f;
    f.start();
    const auto batch = f.next();
    sampled step;
    step.batch = batch.batch;
    step.epoch = batch.epoch;
    step.samples.resize(what == 0 ? 0 : what == 1 ? 2 : 1);
    if (what == 2)
      step.samples[0].token = 100;
    f.s.on_sampled(step);
    const auto out = f.s.take();
    REQUIRE(out.refusals.size() == 1);
    CHECK(out.refusals[0].message.reason.code == errc::internal);
    f.check_at_rest();
  }
}
