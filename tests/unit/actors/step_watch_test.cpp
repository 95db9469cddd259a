// When a step takes too long: by what steps have taken so far.
#include "actors/step_watch.hpp"

#include <doctest/doctest.h>

using namespace baton::actors;
using namespace std::chrono_literals;

namespace {

struct bench {
  step_watch watch{{.floor = 5s, .most = 60s, .slack = 3}};
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

TEST_CASE("the first step has all the time that one may take") {
  bench b;
  CHECK_FALSE(b.watch.overdue(b.now)); // none runs
  CHECK_FALSE(b.is_overdue_after(512, 59'999ms));
  CHECK_FALSE(b.watch.overdue(b.now + 1h));
  bench other;
  CHECK(other.is_overdue_after(1, 60s));
}

TEST_CASE("the next ones have some times that of the slowest row so far") {
  bench b;
  b.step(1, 100ms);
  b.step(100, 1s); // 10 ms a row: not the slowest
  CHECK_FALSE(b.is_overdue_after(1, 5'299ms));
  CHECK(b.is_overdue_after(1, 5'301ms));
  CHECK_FALSE(b.is_overdue_after(100, 34'999ms));
  CHECK(b.is_overdue_after(100, 35'001ms));
  CHECK_FALSE(b.is_overdue_after(1000, 59'999ms));
  CHECK(b.is_overdue_after(1000, 60s)); // however many
}

TEST_CASE("a step that was slow gives the next ones more time") {
  bench b;
  b.step(1, 10ms);
  CHECK(b.is_overdue_after(1, 6s));
  b.step(1, 1s);
  CHECK_FALSE(b.is_overdue_after(1, 6s));
}
