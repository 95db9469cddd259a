#include "gateway/metrics/rising_count.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace baton;
using namespace baton::gateway;

TEST_CASE("a count continues over the incarnations of its source") {
  rising_count c;
  CHECK(c.take(5) == 5);
  CHECK(c.take(7) == 7);
  CHECK(c.take(2) == 9); // the source has restarted
  c.next_incarnation();
  CHECK(c.take(9) == 18); // reported as another incarnation, though it is more
  CHECK(c.total() == 18);
}

TEST_CASE("counters of a head are summed over its incarnations, gauges are the latest") {
  load_report before;
  before.model = "m";
  before.running = 3;
  before.steps = 40;
  before.decodes_failed = 1;
  before.stage_busy_micros = {100, 200};
  before.step_rows = {{1, 2, 0}, 50};
  load_totals totals;
  CHECK(totals.take(before).steps == 40);
  totals.next_incarnation();
  load_report after;
  after.model = "m";
  after.running = 1;
  after.steps = 60; // more than before, and of another incarnation
  after.stage_busy_micros = {7};
  after.step_rows = {{1}, 1};
  const auto total = totals.take(after);
  CHECK(total.running == 1);
  CHECK(total.steps == 100);
  CHECK(total.decodes_failed == 1);
  CHECK(total.stage_busy_micros == std::vector<std::uint64_t>{107, 200});
  CHECK(total.step_rows.counts == std::vector<std::uint64_t>{2, 2, 0});
  CHECK(total.step_rows.sum == 51);
}

TEST_CASE("over any incarnations of a source, its count never falls and equals their sum") {
  std::mt19937_64 random(7);
  rising_count c;
  std::uint64_t sum = 0, now = 0, last = 0;
  for (int i = 0; i < 1000; ++i) {
    if (random() % 5 == 0) {
      c.next_incarnation();
      now = 0;
    }
    const auto more = random() % 10;
    now += more;
    sum += more;
    const auto total = c.take(now);
    CHECK(total == sum);
    CHECK(total >= last);
    last = total;
  }
}
