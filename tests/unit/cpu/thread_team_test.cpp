// Goal: every member runs every part, none passes a barrier early, and a parked team wakes up.
#include "runtime/cpu/forward/thread_team.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <numeric>

using baton::cpu::thread_team;

TEST_CASE("each member of a team runs the work once, for teams of any size") {
  for (const unsigned size : {1U, 2U, 3U, 5U}) {
    thread_team team(size, {});
    std::vector<int> runs(size, 0);
    for (int i = 0; i < 50; ++i)
      team.run([&](unsigned member) { ++runs[member]; });
    CHECK(runs == std::vector<int>(size, 50));
  }
}

TEST_CASE("no member passes a barrier before all have arrived") {
  constexpr unsigned size = 3;
  constexpr int parts = 200;
  thread_team team(size, {});
  // Each part reads the results of all members' previous part: a broken barrier gives other sums.
  std::vector<std::vector<long>> values(parts + 1, std::vector<long>(size, 1));
  team.run([&](unsigned member) {
    for (std::size_t part = 1; part <= parts; ++part) {
      const auto& before = values[part - 1];
      values[part][member] = std::accumulate(before.begin(), before.end(), 0L) % 1000003;
      team.barrier();
    }
  });
  long expected = 1;
  for (int part = 0; part < parts; ++part)
    expected = expected * size % 1000003;
  CHECK(values[parts] == std::vector<long>(size, expected));
}

// Arrivals around the moment at which the other member goes to sleep, many times.
TEST_CASE("a member that arrives while the other falls asleep wakes it") {
  thread_team team(2, {});
  constexpr auto earliest = std::chrono::microseconds(45);
  for (int i = 0; i < 2000; ++i)
    team.run([&](unsigned member) {
      for (int part = 0; part < 4; ++part) {
        if (member == static_cast<unsigned>(i + part) % 2) {
          const auto until = std::chrono::steady_clock::now() + earliest +
                             std::chrono::nanoseconds((i * 4 + part) * 37 % 30'000);
          while (std::chrono::steady_clock::now() < until) {
          }
        }
        team.barrier();
      }
    });
}

TEST_CASE("a team that is never used ends") {
  thread_team team(4, {});
  CHECK(team.size() == 4);
}

TEST_CASE("a processor that does not exist does not cause a failure") {
  thread_team team(2, {-1, 1 << 20});
  std::vector<int> runs(2, 0);
  team.run([&](unsigned member) { ++runs[member]; });
  CHECK(runs == std::vector<int>{1, 1});
}
