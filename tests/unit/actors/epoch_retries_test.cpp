// The time of the next epoch, and when failing epochs are reported.
#include "actors/epoch_retries.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::actors;
using namespace std::chrono_literals;

namespace {

using time_point = epoch_retries::time_point;

const epoch_retries::incarnations shards{{process_id{1024}, incarnation_id{1}},
                                         {process_id{1025}, incarnation_id{1}}};
const epoch_retries::incarnations next_incarnation{{process_id{1024}, incarnation_id{1}},
                                                   {process_id{1025}, incarnation_id{2}}};

struct world {
  epoch_retries retries;
  time_point now{};

  // Waits until the next may be opened; returns that time.
  std::chrono::milliseconds open(const epoch_retries::incarnations& with = shards) {
    const auto since = now;
    while (!retries.may_open(with, now))
      now += 100ms;
    retries.on_opening(with);
    retries.on_opened(now);
    return std::chrono::duration_cast<std::chrono::milliseconds>(now - since);
  }
  void fail(const std::string& why = "refused") { retries.on_closed(now, true, why); }
};

} // namespace

TEST_CASE("useless epochs with the same shards are opened ever later") {
  world w;
  CHECK(w.open() == 0ms);
  CHECK(w.retries.reason().empty());
  for (const std::chrono::milliseconds pause : {0s, 1s, 1s, 2s, 3s}) {
    w.fail();
    CHECK(w.open() == pause);
    CHECK_FALSE(w.retries.keeps_failing());
  }
  for (int i = 0; i < 3; ++i) {
    w.fail("NCCL: invalid usage");
    CHECK(w.open() == 13s);
    CHECK(w.retries.keeps_failing());
  }
  CHECK(w.retries.reason() == "8 epochs in a row failed, the last one: NCCL: invalid usage");
  CHECK(w.retries.failing_since() == time_point{});
}

TEST_CASE("a shard in another incarnation is tried at once, and not charged for earlier failures") {
  world w;
  w.open();
  for (std::uint64_t incarnation = 2; incarnation < 20; ++incarnation) {
    w.fail();
    CHECK(w.open({{process_id{1024}, incarnation_id{incarnation}}}) == 0ms);
  }
  CHECK_FALSE(w.retries.keeps_failing());
  w.fail();
  CHECK(w.open({{process_id{1024}, incarnation_id{19}}}) == 0ms);
  w.fail();
  CHECK_FALSE(w.retries.may_open({{process_id{1024}, incarnation_id{19}}}, w.now));
  CHECK(w.retries.is_paused());
  CHECK(w.open(next_incarnation) == 0ms); // it does not wait for the pause of the others
}

TEST_CASE("an epoch with a completed step was useful, and is stable after a while") {
  world w;
  w.open();
  w.fail();
  w.open();
  w.fail();
  w.open(); // after a second
  const auto since = w.retries.failing_since();
  w.retries.on_step();
  w.fail();
  CHECK(w.open() == 0ms);
  CHECK(w.retries.failing_since() == since); // too short to be sure
  w.retries.on_step();
  w.now += 1s;
  CHECK_FALSE(w.retries.has_held(w.now, true));
  CHECK(w.retries.failing_since() == since);
  w.now += 1s;
  w.retries.has_held(w.now, true);
  CHECK_FALSE(w.retries.failing_since());
  CHECK(w.retries.reason().empty());
  w.fail();
  CHECK(w.open() == 0ms);
}

TEST_CASE("an epoch in which no step was needed is stable, unless epochs keep failing") {
  world w;
  w.open();
  w.fail();
  w.open();
  w.now += 3s;
  w.retries.has_held(w.now, false);
  CHECK_FALSE(w.retries.failing_since());
  for (int i = 0; i < 6; ++i) {
    w.fail();
    w.open();
  }
  REQUIRE(w.retries.keeps_failing());
  w.now += 300s;
  CHECK_FALSE(w.retries.has_held(w.now, false));
  CHECK(w.retries.keeps_failing());
  w.retries.on_step();
  CHECK(w.retries.has_held(w.now, false)); // a change
  CHECK_FALSE(w.retries.keeps_failing());
}

TEST_CASE("a step that does not come back makes an epoch fail, after any wait") {
  world w;
  w.open();
  for (int i = 0; i < 6; ++i) {
    w.now += 60s;
    CHECK_FALSE(w.retries.has_held(w.now, true));
    w.fail("no step came back");
    w.open();
  }
  CHECK(w.retries.keeps_failing());
}

TEST_CASE("an epoch that never opened was useless") {
  world w;
  for (int i = 0; i < 7; ++i) {
    while (!w.retries.may_open(shards, w.now))
      w.now += 100ms;
    w.retries.on_opening(shards);
    w.retries.on_closed(w.now, false, "it did not open");
  }
  CHECK_FALSE(w.retries.may_open(shards, w.now));
  CHECK(w.retries.keeps_failing());
}
