// Restart intensity and back-off, on a clock that the test moves.
#include "runtime/schedule/tickets/retry_policy.hpp"

#include <doctest/doctest.h>

using namespace baton::schedule;
using namespace std::chrono_literals;

namespace {
using time_point = retry_policy::time_point;
} // namespace

TEST_CASE(
    "back-off follows 0, 1, 1, 2, 3 seconds and the sixth attempt within the period is refused") {
  retry_policy policy({5, 30s});
  time_point now{};
  const std::chrono::milliseconds delays[] = {0s, 1s, 1s, 2s, 3s};
  for (auto expected : delays) {
    CHECK(policy.on_end(now, false) == expected);
    now += 1s;
  }
  CHECK_FALSE(policy.on_end(now, false));
  CHECK(policy.attempts_total() == 5);
}

TEST_CASE("pauses grow to the maximum and no further") {
  retry_policy policy({20, 300s});
  time_point now{};
  for (int i = 0; i < 7; ++i)
    policy.on_end(now += 1s, false);
  CHECK(policy.on_end(now, false) == 13s);
  CHECK(policy.on_end(now, false) == 13s);
  CHECK(policy.pause_max() == 13s);
}

TEST_CASE("slower attempts have longer pauses") {
  retry_policy policy({20, 3600s}, /*unit=*/15s);
  time_point now{};
  for (const std::chrono::milliseconds expected : {0s, 15s, 15s, 30s, 45s})
    CHECK(policy.on_end(now, false) == expected);
  CHECK(policy.pause_max() == 195s);
}

TEST_CASE("attempts older than the period are forgotten") {
  retry_policy policy({2, 10s});
  time_point now{};
  CHECK(policy.on_end(now, false) == 0ms);
  now += 9s;
  CHECK(policy.on_end(now, false) == 1s);
  now += 2s; // the first is 11 s old
  CHECK(policy.on_end(now, false) == 1s);
  CHECK_FALSE(policy.on_end(now, false));
  now += 60s;
  CHECK(policy.on_end(now, false) == 0ms);
}

TEST_CASE("a useful attempt is followed by the next at once, and still counts") {
  retry_policy policy({5, 30s});
  time_point now{};
  for (int i = 0; i < 2; ++i) {
    CHECK(policy.on_end(now, true) == 0ms);
    now += 3s;
  }
  CHECK(policy.on_end(now, false) == 1s); // this one was useless
  CHECK(policy.on_end(now, false) == 1s);
  CHECK(policy.on_end(now, true) == 0ms);
  CHECK_FALSE(policy.on_end(now, true));
}

TEST_CASE("a success resets everything") {
  retry_policy policy({2, 30s});
  time_point now{};
  policy.on_end(now, false);
  policy.on_end(now, false);
  CHECK_FALSE(policy.on_end(now, false));
  policy.on_success();
  CHECK(policy.attempts_recent(now) == 0);
  CHECK(policy.on_end(now, false) == 0ms);
  CHECK(policy.on_end(now, false) == 1s);
}

TEST_CASE("recent attempts are those within the period that ends now") {
  retry_policy policy({3, 10s});
  CHECK(policy.attempts_recent(time_point{}) == 0);
  policy.on_end(time_point{} + 1s, false);
  policy.on_end(time_point{} + 5s, false);
  CHECK(policy.attempts_recent(time_point{} + 5s) == 2);
  CHECK(policy.attempts_recent(time_point{} + 11s) == 2);
  CHECK(policy.attempts_recent(time_point{} + 12s) == 1);
  CHECK(policy.attempts_recent(time_point{} + 16s) == 0);
  CHECK(policy.attempts_total() == 2);
}
