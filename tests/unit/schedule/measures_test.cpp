// The scheduler's measurements beside the answers: queue times of tickets, and statistics of steps.
#include "tests/unit/schedule/fixture.hpp"

#include <numeric>

using namespace baton;
using namespace baton::schedule;
using namespace std::chrono_literals;

namespace {

std::uint64_t count_of(const size_counts& s) {
  return std::accumulate(s.counts.begin(), s.counts.end(), std::uint64_t{0});
}

void answer(fixture& f, const micro_batch& batch, std::vector<std::uint32_t> stage_micros) {
  sampled step;
  step.batch = batch.batch;
  step.epoch = batch.epoch;
  step.samples.resize(batch.draws.size(), {5, 0, {}});
  step.stage_micros = std::move(stage_micros);
  f.s.on_sampled(step);
}

} // namespace

TEST_CASE("the first message of a choice has its ticket's queue time") {
  auto config = small_config();
  config.max_num_seqs = 1;
  fixture f(config);
  const auto first = f.grant();
  f.now += 3ms;
  f.s.admit(f.request(first, 5, 2), f.now);
  f.now += 5ms;
  auto batch = f.s.next(f.now);
  REQUIRE(batch);
  const auto second = f.grant();
  f.now += 1ms;
  f.s.admit(f.request(second), f.now);
  f.now += 100ms; // work, which is not queue time
  f.answer(*batch);
  auto recovered = f.s.take().tokens;
  REQUIRE(recovered.size() == 1);
  CHECK(recovered[0].prepare_micros == 3000);
  CHECK(recovered[0].queue_micros == 5000);
  batch = f.s.next(f.now);
  f.answer(*batch);
  CHECK(f.s.take().tokens.front().queue_micros == 0); // reported once
  batch = f.s.next(f.now);                            // there is a slot now
  REQUIRE(batch);
  f.answer(*batch);
  recovered = f.s.take().tokens;
  CHECK(recovered[0].ticket == second);
  CHECK(recovered[0].prepare_micros == 1000);
  CHECK(recovered[0].queue_micros == 100'000);
}

TEST_CASE("a recomputation does not add to the queue time before the first step") {
  fixture f;
  const auto ticket = f.grant();
  f.s.admit(f.request(ticket), f.now);
  f.now += 2ms;
  REQUIRE(f.s.next(f.now));
  f.s.close_epoch(f.now);
  f.now += 1s;
  f.s.open_epoch({2}, small_shape);
  auto batch = f.s.next(f.now);
  REQUIRE(batch);
  f.answer(*batch);
  CHECK(f.s.take().tokens.front().queue_micros == 2000);
}

TEST_CASE("steps are counted by their rows, and by the work time of the stages") {
  fixture f;
  f.start(5, 10);
  auto batch = f.next();
  CHECK(f.s.load().running_tokens == 0);
  CHECK(f.s.load().running_max_tokens == 15);
  answer(f, batch, {600, 400});
  CHECK(f.s.load().running_tokens == 5);
  batch = f.next();
  answer(f, batch, {1500});
  f.start(16, 10);
  batch = f.next();
  f.answer_failure(batch); // both: each is retried alone
  const auto load = f.s.load();
  CHECK(load.step_rows.sum == 6);
  CHECK(load.step_rows.counts == [] {
    std::vector<std::uint64_t> counts(step_rows_borders.size() + 1);
    counts[0] = counts[1] = 1; // one row; up to 8
    return counts;
  }());
  CHECK(load.prefill_micros.sum == 1000);
  CHECK(load.prefill_micros.counts.at(1) == 1); // up to 1 ms
  CHECK(load.decode_micros.sum == 1500);
  CHECK(load.decode_micros.counts.at(2) == 1);
  CHECK(count_of(load.prefill_micros) == 1);
  CHECK(load.prefills_failed == 1);
  CHECK(load.decodes_failed == 0);
  CHECK(load.steps == 3);
}

TEST_CASE("a size belongs to the first bucket whose bound it does not exceed") {
  size_counts s;
  for (const std::uint64_t size : {0, 1, 2, 8, 9, 16384, 16385})
    s.add(size, step_rows_borders);
  CHECK(s.counts == std::vector<std::uint64_t>{2, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1});
  CHECK(s.sum == 1 + 2 + 8 + 9 + 16384 + 16385);
}
