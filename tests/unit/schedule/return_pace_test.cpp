// Retry times of refused requests: they come back one by one, as slots become free.
#include "runtime/schedule/tickets/return_pace.hpp"
#include "tests/unit/schedule/fixture.hpp"

using namespace baton;
using namespace baton::schedule;
using namespace std::chrono_literals;

namespace {

struct pace_fixture {
  return_pace pace{1s};
  return_pace::time_point now{100s};
  std::uint64_t ended = 0;

  // Passes this time, with so many endings a second.
  void pass(std::chrono::milliseconds time, std::uint64_t per_second, bool is_full = true) {
    for (auto t = 0ms; t < time; t += 500ms) {
      now += 500ms;
      ended += per_second / 2;
      pace.observe(ended, is_full, now);
    }
  }
};

} // namespace

TEST_CASE("without a pace, every request gets the minimum wait") {
  pace_fixture f;
  CHECK(f.pace.next(f.now) == 1s);
  f.pass(5s, 0);
  CHECK(f.pace.next(f.now) == 1s);
  CHECK(f.pace.next(f.now) == 1s);
}

TEST_CASE("each refused request gets the time of one slot, at the pace of the endings") {
  pace_fixture f;
  f.pass(20s, 4);
  for (int i = 1; i <= 4; ++i)
    CHECK(f.pace.next(f.now) == 1s); // slots within the first second
  CHECK(f.pace.next(f.now) == 1250ms);
  CHECK(f.pace.next(f.now) == 1500ms);
  f.pass(1s, 4);
  CHECK(f.pace.next(f.now) == 1s); // promises for the last second have expired
  CHECK(f.pace.next(f.now) == 1s);
}

TEST_CASE("no request gets more than the maximum wait") {
  pace_fixture f;
  f.pass(20s, 2);
  for (int i = 0; i < 200; ++i)
    CHECK(f.pace.next(f.now) <= retry_after_max);
  CHECK(f.pace.next(f.now) == retry_after_max);
  f.pass(500ms, 2);
  CHECK(f.pace.next(f.now) == retry_after_max);
}

TEST_CASE("the pace follows the server, not the requests, and decays slowly") {
  pace_fixture f;
  f.pass(20s, 2);
  f.pass(60s, 0, false); // no requests
  for (int i = 0; i < 3; ++i)
    f.pace.next(f.now);
  CHECK(f.pace.next(f.now) == 2s); // still two a second
  f.pass(30s, 20);
  for (int i = 0; i < 39; ++i)
    f.pace.next(f.now);
  const auto wait = f.pace.next(f.now); // the earlier promises have expired
  CHECK(wait > 2s);
  CHECK(wait < 3s);
}

TEST_CASE("clients that do not come back are not waited for") {
  pace_fixture f;
  f.pass(20s, 2);
  for (int i = 0; i < 100; ++i)
    f.pace.next(f.now);
  f.pass(1s, 2, false); // a slot is free, but no client takes it
  CHECK(f.pace.next(f.now) == 1s);
}

TEST_CASE("a full scheduler gives each refused request another time, and other errors as before") {
  fixture f; // 8 slots, 4 in the queue
  f.grant(8);
  ticket_id last;
  for (int i = 0; i < 4; ++i)
    last = f.grant();
  const auto recovered = [&f] { return std::get<rejected>(f.reserve()).retry_after; };
  CHECK(recovered() == 1000ms);
  for (int i = 0; i < 8; ++i) { // each second one of the waiting gives up, and another comes
    f.now += 1s;
    f.s.tick(f.now);
    f.s.cancel({last, {}, cancel_reason::client_asked, 0, {}});
    last = f.grant();
  }
  f.s.tick(f.now);
  const auto first = recovered();
  const auto second = recovered();
  CHECK(first >= 1000ms);
  CHECK(second > first);
  f.s.drain();
  CHECK(recovered() == 1000ms);
}
