// Children that do not answer: killed if they hang, not if they wait for a processor.
#include "tests/unit/actors/supervisor_world.hpp"

using namespace baton;
using namespace baton::actors;
using namespace baton::actors::supervised;

TEST_CASE("a child that does not answer is killed and restarted") {
  supervisor_world w;
  w.start({a});
  w.take();
  const auto report_ready = [&](incarnation_id incarnation) {
    w.send(status{a.process, incarnation, role::head, "a", phase::ready, "", 0, 0, 1});
  };
  report_ready(w.incarnations[0]);
  w.send(peer_down{a.process, w.incarnations[0], "silent for 2000 ms"});
  CHECK(w.last[0].phase == phase::recovering);
  CHECK(w.last[0].reason == "does not answer: silent for 2000 ms");
  w.now += supervisor_config{}.silence_max - 1ms;
  w.send(tick{});
  CHECK(w.take().empty());
  SUBCASE("unless it sends a greeting in time") {
    w.send(peer_up{{a.process, w.incarnations[0], role::head, "a", {}, {}, 0}});
    report_ready(w.incarnations[0]);
    CHECK(w.last[0].phase == phase::ready);
    w.now += 10s;
    w.send(tick{});
    CHECK(w.take().empty());
  }
  SUBCASE("once") {
    w.now += 1ms;
    w.send(tick{});
    CHECK(w.take() == lines{"kill a"});
    w.send(tick{});
    CHECK(w.take().empty());
    w.send(child_exited{a.process, w.incarnations[0], "killed by signal 9", false});
    CHECK(w.take() == lines{"start a"});
    CHECK(w.last[0].restarts == 1);
    w.send(peer_down{a.process, w.incarnations[0], "an earlier life"});
    w.now += 10s;
    w.send(tick{});
    CHECK(w.take().empty());
  }
  SUBCASE("not while it stops: that has its own limit") {
    w.send(drain{});
    CHECK(w.take() == lines{"stop a"});
    w.now += 1s;
    w.send(tick{});
    CHECK(w.take().empty());
  }
}

TEST_CASE("a starved child is waited for, with a limit") {
  supervisor_world w;
  w.start({a});
  w.take();
  w.send(status{a.process, w.incarnations[0], role::head, "a", phase::ready, "", 0, 0, 1});
  w.send(peer_down{a.process, w.incarnations[0], "silent for 1500 ms"});
  w.is_starved = true;
  const auto wait = [&](std::chrono::milliseconds span) {
    for (const auto until = w.now + span; w.now < until; w.now += 100ms)
      w.send(tick{});
  };
  wait(supervisor_config{}.starvation_max - 1s);
  CHECK(w.take().empty());
  SUBCASE("and is well when it sends a greeting") {
    w.send(peer_up{{a.process, w.incarnations[0], role::head, "a", {}, {}, 0}});
    w.is_starved = false;
    wait(20s);
    CHECK(w.take().empty());
  }
  SUBCASE("once it runs and stays silent, it hangs") {
    w.is_starved = false;
    wait(supervisor_config{}.silence_max + 100ms);
    CHECK(w.take() == lines{"kill a"});
  }
  SUBCASE("nor if it never runs") {
    wait(1s + supervisor_config{}.silence_max);
    CHECK(w.take() == lines{"kill a"});
  }
}

TEST_CASE("a child that is not ready in its time is killed, and a reconnect restarts that time") {
  supervisor_world w;
  auto slow = a;
  slow.startup_max = 2s;
  w.start({slow});
  w.take();
  w.now += 1999ms;
  w.send(tick{});
  CHECK(w.take().empty());
  w.now += 1ms;
  w.send(tick{});
  CHECK(w.take() == lines{"kill a"});
  w.send(child_exited{slow.process, w.incarnations.back(), "killed by signal 9"});
  CHECK(w.take() == lines{"start a"});
  w.send(peer_down{slow.process, w.incarnations.back(), "silent"});
  hello peer;
  peer.process = slow.process;
  peer.incarnation = w.incarnations.back();
  w.now += 200ms;
  w.send(peer_up{peer});
  w.now += 1900ms;
  w.send(tick{});
  CHECK(w.take().empty());
  status ready;
  ready.process = slow.process;
  ready.incarnation = w.incarnations.back();
  ready.phase = phase::ready;
  w.send(ready);
  w.now += 10s;
  w.send(tick{});
  CHECK(w.take().empty());
}
