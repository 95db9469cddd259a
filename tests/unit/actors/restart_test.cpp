// Restart intensity and back-off, on a clock that the test moves.
#include "actors/restart.hpp"

#include <doctest/doctest.h>

using namespace baton::actors;
using namespace std::chrono_literals;

TEST_CASE(
    "back-off follows 0, 1, 1, 2, 3 seconds and the sixth restart within the period is refused") {
  restart_policy policy(pipeline_intensity);
  time_point now{};
  const std::chrono::milliseconds delays[] = {0s, 1s, 1s, 2s, 3s};
  for (auto expected : delays) {
    CHECK(policy.on_exit(now, false) == expected);
    now += 1s;
  }
  CHECK_FALSE(policy.on_exit(now, false));
  CHECK(policy.restarts_total() == 5);
}

TEST_CASE("restarts older than the period are forgotten") {
  restart_policy policy({2, 10s});
  time_point now{};
  CHECK(policy.on_exit(now, false) == 0ms);
  now += 9s;
  CHECK(policy.on_exit(now, false) == 1s);
  now += 2s; // the first is 11 s old
  CHECK(policy.on_exit(now, false) == 1s);
  CHECK_FALSE(policy.on_exit(now, false));
  now += 60s;
  CHECK(policy.on_exit(now, false) == 0ms);
}

TEST_CASE("a life that was of use is followed by the next at once, and counts all the same") {
  restart_policy policy({5, 30s});
  time_point now{};
  for (int i = 0; i < 2; ++i) {
    CHECK(policy.on_exit(now, true) == 0ms);
    now += 3s;
  }
  CHECK(policy.on_exit(now, false) == 1s); // this one came to nothing
  CHECK(policy.on_exit(now, false) == 1s);
  CHECK(policy.on_exit(now, true) == 0ms);
  CHECK_FALSE(policy.on_exit(now, true));
}

TEST_CASE("restarts of late are those within the period that ends now") {
  restart_policy policy({3, 10s});
  CHECK(policy.restarts_recent(time_point{}) == 0);
  policy.on_exit(time_point{} + 1s, false);
  policy.on_exit(time_point{} + 5s, false);
  CHECK(policy.restarts_recent(time_point{} + 5s) == 2);
  CHECK(policy.restarts_recent(time_point{} + 11s) == 2);
  CHECK(policy.restarts_recent(time_point{} + 12s) == 1);
  CHECK(policy.restarts_recent(time_point{} + 16s) == 0);
  CHECK(policy.restarts_total() == 2);
}
