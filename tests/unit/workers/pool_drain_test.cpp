// A draining pool: its requests finish, within the grace period.
#include "tests/unit/workers/pool_world.hpp"

using namespace baton;
using namespace baton::gateway;
using namespace baton::gateway::test;
using namespace std::chrono_literals;

TEST_CASE("a draining pool finishes its requests, also late ones, and reports that once") {
  pool_world w;
  w.deliver(worker_greeted{first});
  auto running = w.ask();
  auto waiting = w.ask();
  w.deliver(drain{10s});
  w.pass(1s);
  w.deliver(actors::tick{});
  CHECK(w.drained == 0);
  w.piece(*running, 0, true);
  CHECK(body_of(*running) == "piece");
  w.piece(*waiting, 0, true);
  CHECK(body_of(*waiting) == "piece");
  w.deliver(actors::tick{});
  CHECK(w.drained == 1);
  w.deliver(drain{10s});
  w.deliver(actors::tick{});
  CHECK(w.drained == 1);
  auto late = w.ask();
  CHECK(failure_of(*late) == errc::not_ready);
  CHECK(w.facts->requests_open() == 0);
}

TEST_CASE("an empty draining pool waits for a request that an API server is about to send") {
  pool_world w;
  w.deliver(worker_greeted{first});
  w.deliver(drain{10s});
  CHECK(w.drained == 0);
  auto straggler = w.ask();
  w.pass(1s);
  w.deliver(actors::tick{});
  CHECK(w.drained == 0);
  w.piece(*straggler, 0, true);
  CHECK(body_of(*straggler) == "piece");
  w.deliver(actors::tick{});
  CHECK(w.drained == 1);
}

TEST_CASE("a drain without grace ends open requests at once, and wakes their API server") {
  pool_world w;
  w.deliver(worker_greeted{first});
  int woken = 0;
  auto running = w.ask(1 << 20, "", [&] { ++woken; });
  w.deliver(drain{0ms});
  CHECK(woken == 1);
  CHECK(failure_of(*running) == errc::not_ready);
}

TEST_CASE("requests open at the end of the grace period end with a reason") {
  pool_world w;
  w.deliver(worker_greeted{first});
  auto running = w.ask();
  auto waiting = w.ask();
  w.deliver(drain{2s});
  w.pass(1s);
  w.deliver(actors::tick{});
  CHECK_FALSE(running->next());
  w.pass(1s);
  w.deliver(actors::tick{});
  CHECK(failure_of(*running) == errc::not_ready);
  CHECK(failure_of(*waiting) == errc::not_ready);
  CHECK(w.facts->requests_open() == 0);
  CHECK(w.drained == 0); // the worker still has it
  w.piece(*running, 0, true);
  w.deliver(actors::tick{});
  CHECK(w.drained == 1);
}

TEST_CASE_FIXTURE(pool_world,
                  "answers, failures and clients that leave are counted as Triton counts them") {
  deliver(worker_greeted{first});
  const auto tally = [&] { return facts->metrics().tally_of("", "1"); };
  const auto well = ask();
  CHECK(well->begun_at() > stream::instant{});
  pass(10ms);
  piece(*well, 0, /*is_last=*/false);
  piece(*well, 1, /*is_last=*/true);
  CHECK(tally().succeeded == 1);
  CHECK(tally().success_seconds == doctest::Approx(0.01));
  CHECK(tally().queue_seconds == doctest::Approx(0));
  CHECK(tally().executions == 1);
  const auto fails = ask();
  failure(*fails, "no");
  const auto leaves = ask();
  deliver(close_request{leaves->number(), cancel_reason::client_gone});
  CHECK(tally().succeeded == 1);
  CHECK(tally().failed == 2);
}
