// The supervisor: starts, restarts, gives up, stops in reverse order.
#include "tests/unit/actors/supervisor_world.hpp"

using namespace baton;
using namespace baton::actors;
using namespace baton::actors::supervised;

TEST_CASE("a child that was ready for a while is restarted at once, however often") {
  supervisor_world w;
  w.start({b});
  for (int incarnation = 0; incarnation < 2; ++incarnation) {
    CAPTURE(incarnation);
    w.send(status{b.process, w.incarnations.back(), role::gateway, "b", phase::ready, "", 0, 0, 1});
    w.now += settled_after;
    (void)w.take();
    w.send(child_exited{b.process, w.incarnations.back(), "killed by signal 9", false});
    CHECK(w.take() == lines{"start b"});
  }
  w.send(status{b.process, w.incarnations.back(), role::gateway, "b", phase::ready, "", 0, 0, 1});
  w.now += settled_after;
  w.send(child_exited{b.process, w.incarnations.back(), "killed by signal 9", false});
  CHECK(w.take() == lines{"escalate b"}); // the limit is two in ten seconds
}

TEST_CASE("a child that was only loading for a while is not settled: its second end backs off") {
  supervisor_world w;
  w.start({b});
  for (int incarnation = 0; incarnation < 2; ++incarnation) {
    (void)w.take();
    w.send(
        status{b.process, w.incarnations.back(), role::gateway, "b", phase::loading, "", 0, 0, 1});
    w.now += settled_after;
    w.send(child_exited{b.process, w.incarnations.back(), "killed by signal 9", false});
  }
  CHECK(w.take().empty());
  CHECK(w.last[0].phase == phase::recovering);
}

TEST_CASE("children are started in order and one that dies is restarted under a new incarnation") {
  supervisor_world w;
  w.start({a, b});
  CHECK(w.take() == lines{"start a", "start b"});
  w.send(status{b.process, w.incarnations[1], role::gateway, "b", phase::ready, "", 0, 0, 1});
  CHECK(w.last[1].phase == phase::ready);
  w.send(child_exited{b.process, w.incarnations[1], "killed by signal 9", false});
  CHECK(w.take() == lines{"start b"});
  CHECK(w.incarnations[2] > w.incarnations[1]);
  CHECK(w.last[1].restarts == 1);
  w.send(child_exited{b.process, w.incarnations[1], "the same end once more", false});
  CHECK(w.take().empty());
}

TEST_CASE("a second restart waits and one too many is escalated by name") {
  supervisor_world w;
  w.start({a});
  w.send(child_exited{a.process, w.incarnations.back(), "exit status 1", false});
  w.send(child_exited{a.process, w.incarnations.back(), "exit status 1", false});
  CHECK(w.take() == lines{"start a", "start a"});
  CHECK(w.last[0].phase == phase::recovering);
  w.now += 999ms;
  w.send(tick{});
  CHECK(w.take().empty());
  w.now += 1ms;
  w.send(tick{});
  CHECK(w.take() == lines{"start a"});
  w.send(child_exited{a.process, w.incarnations.back(), "exit status 1", false});
  CHECK(w.take() == lines{"escalate a"});
  CHECK(w.last[0].phase == phase::failed);
  CHECK(w.last[0].reason.find("crash_loop") != std::string::npos);
}

TEST_CASE("a child that cannot be started counts as one that died") {
  supervisor_world w;
  w.refuse_start = true;
  w.start({a});
  for (int i = 0; i < 3; ++i) {
    w.now += 2s;
    w.send(tick{});
  }
  CHECK(w.take() == lines{"escalate a"});
}

TEST_CASE("drain stops the children in reverse order and kills those that do not stop") {
  supervisor_world w;
  w.start({a, b});
  w.take();
  w.send(drain{});
  CHECK(w.take() == lines{"stop b"});
  w.now += 5s;
  w.send(tick{});
  CHECK(w.take() == lines{"kill b"});
  w.send(child_exited{b.process, w.incarnations[1], "killed by signal 9", false});
  CHECK(w.take() == lines{"stop a"});
  w.send(drain{});
  CHECK(w.take().empty());
  w.send(child_exited{a.process, w.incarnations[0], "exit status 0", false});
  CHECK(w.take() == lines{"stopped"});
}

TEST_CASE("a child with its own children has the time to kill each of them") {
  supervisor_world w;
  auto agent = b;
  agent.children = 2;
  w.start({agent});
  w.take();
  w.send(drain{});
  CHECK(w.take() == lines{"stop b"});
  w.now += 14'999ms;
  w.send(tick{});
  CHECK(w.take().empty());
  w.now += 1ms;
  w.send(tick{});
  CHECK(w.take() == lines{"kill b"});
}

TEST_CASE("a permanent failure is not restarted") {
  supervisor_world w;
  w.start({a});
  w.send(child_exited{a.process, w.incarnations.back(), "exit status 78", true});
  w.now += 60s;
  w.send(tick{});
  CHECK(w.take() == lines{"start a", "escalate a"});
  CHECK(w.last[0].reason == "exit status 78");
}

TEST_CASE("a change is reported once, and the whole state to a root that greets") {
  supervisor_world w;
  w.start({a, b, c});
  CHECK(w.reported.size() == 3);
  w.reported.clear();
  w.send(status{b.process, w.incarnations[1], role::gateway, "b", phase::ready, "", 0, 0, 1});
  REQUIRE(w.reported.size() == 1);
  CHECK(w.reported[0].name == "b");
  w.send(child_exited{c.process, w.incarnations[2], "killed by signal 9", false});
  REQUIRE(w.reported.size() == 1);
  CHECK(w.reported[0].name == "c");
  CHECK(w.reported[0].restarts == 1);
  w.reported.clear();
  w.now += 60s;
  w.send(tick{});
  REQUIRE(w.reported.size() == 1); // its restart is older than the period
  CHECK(w.reported[0].name == "c");
  CHECK(w.reported[0].supervision->restarts_recent == 0);
  w.reported.clear();
  w.send(peer_up{{process_id{99}, incarnation_id{5}, role::client, "status", {}, {}, 0}});
  CHECK(w.reported.empty());
  w.send(peer_up{{process_id{1}, incarnation_id{5}, role::root, "root", {}, {}, 0}});
  REQUIRE(w.reported.size() == 3);
  CHECK(w.reported[1].name == "b");
  CHECK(w.reported[1].phase == phase::ready);
}

TEST_CASE("a child of a previous supervisor continues, and is restarted when it ends") {
  supervisor_world w;
  w.left["a"] = {77, incarnation_id{1000}};
  w.start({a, b});
  CHECK(w.take() == lines{"start b"});
  CHECK(w.last[0].pid == 77);
  CHECK(w.last[0].incarnation == incarnation_id{1000});
  CHECK(w.last[0].phase == phase::recovering);
  SUBCASE("like one that it started itself") {
    w.send(peer_up{{a.process, incarnation_id{1000}, role::head, "a", {}, {}, 77}});
    w.send(status{a.process, incarnation_id{1000}, role::head, "a", phase::ready, "", 0, 0, 1});
    CHECK(w.last[0].phase == phase::ready);
    w.now += 60s;
    w.send(tick{});
    CHECK(w.take().empty());
    w.send(child_exited{a.process, incarnation_id{1000}, "gone", false});
    CHECK(w.take() == lines{"start a"});
  }
  SUBCASE("also before its greeting") {
    w.send(child_exited{a.process, incarnation_id{1000}, "gone", false});
    CHECK(w.take() == lines{"start a"});
  }
  SUBCASE("is killed first if it sends no greeting in time") {
    w.now += supervisor_config{}.adoption_max - 1ms;
    w.send(tick{});
    CHECK(w.take().empty());
    w.now += 1ms;
    w.send(tick{});
    CHECK(w.take() == lines{"kill a"});
    w.send(child_exited{a.process, incarnation_id{1000}, "gone", false});
    CHECK(w.take() == lines{"start a"});
  }
  SUBCASE("is stopped with the others") {
    w.send(drain{});
    w.send(child_exited{b.process, w.incarnations[0], "exit status 0", false});
    CHECK(w.take() == lines{"stop b", "stop a"});
  }
}

TEST_CASE("the strategy decides which children stop with one that ended") {
  supervisor_world w;
  const auto ends = [&](const child_spec& who, std::size_t incarnation, bool is_permanent = false) {
    w.send(
        child_exited{who.process, w.incarnations[incarnation], "killed by signal 9", is_permanent});
  };
  SUBCASE("none") {
    w.start({a, b, c});
    w.take();
    ends(b, 1);
    CHECK(w.take() == lines{"start b"});
  }
  SUBCASE("those started after it") {
    w.strategy = restart_strategy::rest_for_one;
    w.start({a, b, c});
    w.take();
    ends(b, 1);
    CHECK(w.take() == lines{"stop c"}); // b waits for its end
    ends(c, 2);
    CHECK(w.take() == lines{"start b", "start c"});
    CHECK(w.last[0].restarts == 0);
    CHECK(w.last[1].restarts == 1);
    CHECK(w.last[2].restarts == 0); // not its failure
  }
  SUBCASE("all, and they come back in order") {
    w.strategy = restart_strategy::one_for_all;
    w.start({a, b, c});
    w.take();
    ends(b, 1);
    CHECK(w.take() == lines{"stop c", "stop a"});
    ends(a, 0);
    CHECK(w.take().empty());
    w.now += supervisor_config{}.kill_after;
    w.send(tick{});
    CHECK(w.take() == lines{"kill c"});
    ends(c, 2);
    CHECK(w.take() == lines{"start a", "start b", "start c"});
  }
  SUBCASE("they wait while it backs off") {
    w.strategy = restart_strategy::rest_for_one;
    w.start({a, b});
    ends(a, 0);
    ends(b, 1);
    ends(a, 2);
    ends(b, 3);
    w.take();
    w.now += 999ms;
    w.send(tick{});
    CHECK(w.take().empty());
    w.now += 1ms;
    w.send(tick{});
    CHECK(w.take() == lines{"start a", "start b"});
  }
  SUBCASE("they stay down without one that was given up") {
    w.strategy = restart_strategy::rest_for_one;
    w.start({a, b, c});
    w.take();
    ends(b, 1, true);
    ends(c, 2);
    w.now += 60s;
    w.send(tick{});
    CHECK(w.take() == lines{"escalate b", "stop c"});
    CHECK(w.last[0].phase != phase::draining);
  }
  SUBCASE("a drain meanwhile stops the rest, and starts nothing") {
    w.strategy = restart_strategy::one_for_all;
    w.start({a, b, c});
    w.take();
    ends(b, 1);
    w.send(drain{});
    ends(c, 2);
    ends(a, 0);
    CHECK(w.take() == lines{"stop c", "stop a", "stopped"});
  }
}

TEST_CASE("a child on another machine comes and goes with its link, and is not started here") {
  supervisor_world w;
  child_spec far{"far", process_id{20}, role::agent, {2, 10s}, true};
  w.start({a, far});
  CHECK(w.take() == lines{"start a"});
  CHECK(w.last[1].reason == "has not joined yet");
  hello greets;
  greets.process = far.process;
  greets.incarnation = incarnation_id{77};
  greets.pid = 4711;
  w.send(peer_up{greets});
  w.send(status{far.process, incarnation_id{77}, role::agent, "far", phase::ready, "", 0, 0, 1});
  CHECK(w.last[1].phase == phase::ready);
  CHECK(w.last[1].pid == 4711);
  w.send(peer_down{far.process, incarnation_id{77}, "silent"});
  CHECK(w.last[1].phase == phase::recovering);
  CHECK(w.last[1].reason == "cannot be reached: silent");
  w.now += 60s;
  w.send(tick{});
  CHECK(w.take().empty()); // it cannot be started or killed here
  greets.incarnation = incarnation_id{78};
  w.send(peer_up{greets});
  w.send(status{far.process, incarnation_id{78}, role::agent, "far", phase::ready, "", 0, 0, 1});
  CHECK(w.last[1].phase == phase::ready);
  SUBCASE("it is asked to stop, and has ended when its link is down") {
    w.send(drain{});
    CHECK(w.take() == lines{"stop far"});
    w.send(peer_down{far.process, incarnation_id{78}, "left"});
    CHECK(w.take() == lines{"stop a"});
  }
  SUBCASE("it is waited for no longer than others") {
    w.send(drain{});
    CHECK(w.take() == lines{"stop far"});
    w.now += 6s;
    w.send(tick{});
    CHECK(w.take() == lines{"stop a"});
  }
  SUBCASE("an unreachable one does not delay the end") {
    w.send(peer_down{far.process, incarnation_id{78}, "silent"});
    w.send(drain{});
    CHECK(w.take() == lines{"stop a"});
  }
}

TEST_CASE("a child that is no longer wanted stops permanently, a new one is started") {
  supervisor_world w;
  w.start({a, b});
  (void)w.take();
  w.send(wanted_children{{b, c}});
  CHECK(w.take() == lines{"stop a", "start c"});
  w.send(wanted_children{{b, c}}); // a duplicate
  CHECK(w.take().empty());
  w.send(child_exited{a.process, incarnation_id{1}, "exit status 0", false});
  CHECK(w.take() == lines{"retired a"});
  hello root;
  root.process = process_id{1};
  root.role = role::root;
  w.send(peer_up{root}); // receives the status of all that are left
  REQUIRE(w.reported.size() == 2);
  CHECK(w.reported[0].name == "b");
  CHECK(w.reported[1].name == "c");
  w.now += 60s;
  w.send(tick{});
  CHECK(w.take().empty());
}

TEST_CASE("a child on another machine that is no longer wanted is asked to end, and again if it "
          "comes back") {
  supervisor_world w;
  const child_spec far{"far", process_id{20}, role::agent, {2, 10s}, true};
  w.start({a, far});
  hello greets;
  greets.process = far.process;
  greets.incarnation = incarnation_id{77};
  w.send(wanted_children{{a}}); // it has never come
  CHECK(w.take() == lines{"start a", "retired far"});
  w.send(wanted_children{{a, far}});
  CHECK(w.last.back().reason == "has not joined yet");
  greets.pid = 4711;
  w.send(peer_up{greets});
  w.send(wanted_children{{a}});
  CHECK(w.take() == lines{"stop far"});
  SUBCASE("its link falls when it has ended") {
    w.send(peer_down{far.process, incarnation_id{77}, "left"});
    CHECK(w.take() == lines{"retired far"});
  }
  SUBCASE("it is wanted again while it ends") {
    w.send(wanted_children{{a, far}});
    CHECK(w.take().empty());
    w.send(peer_down{far.process, incarnation_id{77}, "left"});
    CHECK(w.take() == lines{"retired far"});
    CHECK(w.last.back().name == "far");
    CHECK(w.last.back().reason == "has not joined yet");
    greets.incarnation = incarnation_id{78};
    w.send(peer_up{greets});
    w.send(status{far.process, incarnation_id{78}, role::agent, "far", phase::ready, "", 0, 0, 1});
    CHECK(w.last.back().phase == phase::ready);
  }
  SUBCASE("a new incarnation of it has not received the request") {
    greets.incarnation = incarnation_id{78};
    w.send(peer_up{greets});
    CHECK(w.take() == lines{"stop far"});
    w.send(peer_down{far.process, incarnation_id{78}, "left"});
    CHECK(w.take() == lines{"retired far"});
  }
  SUBCASE("it is waited for no longer than others") {
    w.now += 6s;
    w.send(tick{});
    CHECK(w.take() == lines{"retired far"});
  }
}

TEST_CASE("an unwanted child that does not stop is killed") {
  supervisor_world w;
  w.start({a});
  (void)w.take();
  w.send(wanted_children{});
  w.now += 5s;
  w.send(tick{});
  CHECK(w.take() == lines{"stop a", "kill a"});
  w.send(child_exited{a.process, incarnation_id{1}, "killed by signal 9", false});
  CHECK(w.take() == lines{"retired a"});
}

TEST_CASE("an unwanted child that is down is forgotten at once") {
  supervisor_world w;
  w.start({a, b});
  (void)w.take();
  w.send(
      child_exited{a.process, incarnation_id{1}, "killed by signal 9", false}); // restarted at once
  w.send(child_exited{a.process, incarnation_id{3}, "killed by signal 9", false}); // backs off
  (void)w.take();
  w.send(wanted_children{{b}});
  CHECK(w.take() == lines{"retired a"});
  w.now += 60s;
  w.send(tick{});
  CHECK(w.take().empty());
}

TEST_CASE("while all stop, no new child is started") {
  supervisor_world w;
  w.start({a});
  w.send(drain{});
  (void)w.take();
  w.send(wanted_children{{b}});
  CHECK(w.take().empty());
  w.send(child_exited{a.process, incarnation_id{1}, "exit status 0", false});
  CHECK(w.take() == lines{"stopped"});
}

TEST_CASE("an unwanted child is forgotten when it ends, also while all stop") {
  supervisor_world w;
  w.start({a, b});
  (void)w.take();
  w.send(wanted_children{{b}});
  w.send(drain{});
  CHECK(w.take() == lines{"stop a", "stop b"});
  w.send(child_exited{a.process, incarnation_id{1}, "exit status 0", false});
  CHECK(w.take() == lines{"retired a"});
  w.send(child_exited{b.process, incarnation_id{2}, "exit status 0", false});
  CHECK(w.take() == lines{"stopped"}); // b is wanted
}

TEST_CASE("a child's status has its position in the tree") {
  supervisor_world w;
  w.strategy = restart_strategy::rest_for_one;
  w.start({a, b});
  const auto of = [&](std::size_t child) {
    REQUIRE(w.last[child].supervision);
    return *w.last[child].supervision;
  };
  CHECK(of(0) == supervision{"root", restart_strategy::rest_for_one, 2, 10, 0, false});
  w.send(child_exited{b.process, w.incarnations[1], "exit status 1", false});
  CHECK(of(1).restarts_recent == 1);
  CHECK(w.last[1].restarts == 1);
  w.reported.clear();
  w.now += 10s;
  w.send(tick{});
  CHECK(w.reported.empty());
  w.now += 1ms; // it is older than the period
  w.send(tick{});
  REQUIRE(w.reported.size() == 1);
  CHECK(of(1).restarts_recent == 0);
  CHECK(w.last[1].restarts == 1);
  w.send(child_exited{b.process, w.incarnations.back(), "exit status 78", true});
  CHECK(of(1).has_given_up);
  CHECK(w.last[1].reason == "exit status 78");
}

TEST_CASE("a child elsewhere is restarted by others") {
  supervisor_world w;
  auto far = b;
  far.is_elsewhere = true;
  w.start({far});
  REQUIRE(w.last[0].supervision);
  CHECK(w.last[0].supervision->restarts_max == 0);
  w.send(peer_up{{far.process, incarnation_id{7}, role::agent, "b", "tcp://10.0.0.2:1", "", 99}});
  w.send(peer_down{far.process, incarnation_id{7}, "silent for 1500 ms"});
  CHECK(w.last[0].reason == "cannot be reached: silent for 1500 ms");
  // The reason for its absence from others, which know no incarnation of it. A reader of
  // incarnations (status_aggregator.hpp) must not treat it as older than the ended one.
  w.send(status{far.process, {}, role::agent, "b", phase::recovering, "no such file", 0, 0, 0});
  CHECK(w.last[0].reason == "no such file");
  CHECK(w.last[0].incarnation == incarnation_id{7});
}
