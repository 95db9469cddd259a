// The timeout of a step, from the times of earlier steps.
#include "actors/step_watch.hpp"
#include "runtime/collective/collective.hpp"

#include <doctest/doctest.h>

using namespace baton::actors;
using namespace std::chrono_literals;

namespace {

struct bench {
  bench() = default;
  explicit bench(step_limits limits) : watch(limits) {}

  step_watch watch{{.floor = 2s, .most = 60s, .slack = 10}};
  step_watch::time_point now{1h};

  void step(std::uint32_t rows, std::chrono::milliseconds took) {
    watch.begin(now, rows);
    now += took;
    watch.end(now);
  }
  bool is_overdue_after(std::uint32_t rows, std::chrono::milliseconds span) {
    watch.begin(now, rows);
    const auto late = watch.overdue(now + span);
    if (late)
      CHECK(*late == span);
    now += 1ms;
    watch.end(now);
    return late.has_value();
  }
};

} // namespace

TEST_CASE("the first step has the maximum time") {
  bench b;
  CHECK_FALSE(b.watch.overdue(b.now)); // none runs
  CHECK_FALSE(b.is_overdue_after(512, 59'999ms));
  CHECK_FALSE(b.watch.overdue(b.now + 1h));
  bench other;
  CHECK(other.is_overdue_after(1, 60s));
}

TEST_CASE("the next ones have a multiple of the slowest similar step so far, and no less than the "
          "minimum") {
  bench b;
  b.step(1, 100ms);
  CHECK_FALSE(b.is_overdue_after(1, 1'999ms));
  CHECK(b.is_overdue_after(1, 2s)); // 10 times 100 ms is less
  b.step(1, 300ms);
  CHECK_FALSE(b.is_overdue_after(1, 2'999ms));
  CHECK(b.is_overdue_after(1, 3s));
}

TEST_CASE("for a new size, rows take no longer than one by one") {
  bench b;
  b.step(1, 300ms);
  CHECK_FALSE(b.is_overdue_after(4, 11'999ms));
  bench other;
  other.step(1, 300ms);
  CHECK(other.is_overdue_after(4, 12s));
  bench many;
  many.step(1, 300ms);
  CHECK_FALSE(many.is_overdue_after(1000, 59'999ms));
  bench bound;
  bound.step(1, 300ms);
  CHECK(bound.is_overdue_after(1000, 60s)); // for any number of rows
}

TEST_CASE("for a known size, they take the known time, and fewer take no longer") {
  bench b;
  b.step(1, 300ms);
  b.step(128, 1s); // 300 ms each would be 38 s
  CHECK_FALSE(b.is_overdue_after(128, 9'999ms));
  bench other;
  other.step(1, 300ms);
  other.step(128, 1s);
  CHECK(other.is_overdue_after(128, 10s));
  bench fewer;
  fewer.step(128, 1s);
  CHECK_FALSE(fewer.is_overdue_after(2, 9'999ms));
  bench twice;
  twice.step(128, 1s);
  CHECK(twice.is_overdue_after(256, 20s));
}

TEST_CASE("a slow step gives the next ones more time") {
  bench b;
  b.step(1, 10ms);
  CHECK_FALSE(b.is_overdue_after(1, 1'999ms));
  bench slow;
  slow.step(1, 10ms);
  slow.step(1, 1s);
  CHECK_FALSE(slow.is_overdue_after(1, 9'999ms));
}

TEST_CASE("a rank that computes and then waits in vain for another is not overdue") {
  bench b(limits_in_group());
  b.step(1, 5ms);
  CHECK_FALSE(b.is_overdue_after(1, baton::collective::wait_max + 1'900ms));
  CHECK(b.is_overdue_after(1, baton::collective::wait_max + 2s));
}
