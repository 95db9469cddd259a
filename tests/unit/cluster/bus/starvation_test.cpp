// A hanging process and one that waits for a processor differ from outside.
#include "cluster/bus/starvation.hpp"
#include "tests/support/deadline_scale.hpp"

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

using namespace baton::cluster;
using namespace std::chrono_literals;
using baton::testing::scaled;

TEST_CASE(
    "a runnable process with hardly any CPU time is starved, one that waits or loops is not") {
  const process_use wants{100, true}, waits{100, false};
  CHECK(is_starved(wants, {100, true}, 300ms));
  CHECK(is_starved(wants, {107, true}, 300ms));       // of 30
  CHECK_FALSE(is_starved(wants, {130, true}, 300ms)); // it loops
  CHECK_FALSE(is_starved(wants, {100, false},
                         300ms)); // stopped, or waits for a lock that is never released
  CHECK_FALSE(is_starved(waits, {100, true}, 300ms));    // it became runnable just now
  CHECK_FALSE(is_starved({100, true}, {90, true}, 0ms)); // no time has passed
}

TEST_CASE("the kernel distinguishes a running process and a stopped one") {
  const pid_t pid = fork();
  REQUIRE(pid >= 0);
  if (pid == 0)
    for (std::atomic<unsigned> x = 0;; ++x) {
    }
  const auto seen = [pid](auto is_it) {
    for (const auto until = std::chrono::steady_clock::now() + scaled(20s);
         std::chrono::steady_clock::now() < until; poll(nullptr, 0, 5))
      if (const auto use = use_of(pid); use && is_it(*use))
        return true;
    return false;
  };
  CHECK(seen([](const process_use& u) { return u.is_runnable && u.cpu_ticks > 3; }));
  kill(pid, SIGSTOP);
  CHECK(seen([](const process_use& u) { return !u.is_runnable && u.cpu_ticks > 3; }));
  starvation_watch watch;
  CHECK_FALSE(watch.look(pid, starvation_watch::clock::now()));
  CHECK_FALSE(watch.look(pid, starvation_watch::clock::now() + 1s));
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  CHECK_FALSE(use_of(pid));
  CHECK_FALSE(watch.look(pid, starvation_watch::clock::now()));
}
