// The supervisor actor on CAF's testing scheduler: starts, restarts, gives up, stops in reverse. No
// process, no sleep.
#include "actors/supervisor.hpp"

#include <caf/scheduler/test_coordinator.hpp>
#include <doctest/doctest.h>

#include <algorithm>

using namespace baton;
using namespace baton::actors;
using namespace std::chrono_literals;

namespace {

struct world {
  caf::actor_system_config caf_config;
  std::unique_ptr<caf::actor_system> system;
  time_point now{};
  std::vector<std::string> log;
  std::vector<status> told; // the last time
  std::vector<status> last; // of each child
  std::vector<epoch_id> epochs;
  bool refuse_start = false;
  bool is_starved = false; // whoever is asked for
  restart_strategy strategy = restart_strategy::one_for_one;
  std::map<std::string, left_child> left; // by another supervisor
  supervisor_actor actor;

  world() {
    caf_config.set("scheduler.policy", caf::atom("testing"));
    system = std::make_unique<caf::actor_system>(caf_config);
  }
  ~world() {
    caf::anon_send_exit(actor, caf::exit_reason::kill);
    run();
    actor = nullptr;
    system.reset();
  }
  void run() { dynamic_cast<caf::scheduler::test_coordinator&>(system->scheduler()).run(); }

  void start(std::vector<child_spec> children) {
    supervisor_config c;
    c.children = std::move(children);
    c.strategy = strategy;
    c.adopt = [this](const child_spec& s) {
      const auto it = left.find(s.name);
      return it == left.end() ? std::nullopt : std::optional(it->second);
    };
    c.start = [this](const child_spec& s, epoch_id e) -> result<std::int32_t> {
      if (refuse_start)
        return fail(errc::io_failed, "no fork today");
      log.push_back("start " + s.name);
      epochs.push_back(e);
      return static_cast<std::int32_t>(100 + epochs.size());
    };
    c.stop = [this](const child_spec& s, std::int32_t, bool force) {
      log.push_back((force ? "kill " : "stop ") + s.name);
    };
    c.changed = [this](const std::vector<status>& changed) {
      told = changed;
      for (const auto& s : changed) {
        const auto is_it = [&](const status& l) { return l.node == s.node; };
        const auto known = std::find_if(last.begin(), last.end(), is_it);
        if (known == last.end())
          last.push_back(s);
        else
          *known = s;
      }
    };
    c.escalate = [this](const status& s) { log.push_back("escalate " + s.name); };
    c.stopped = [this] { log.push_back("stopped"); };
    c.retired = [this](const child_spec& s) { log.push_back("retired " + s.name); };
    c.is_starved = [this](std::int32_t) { return is_starved; };
    c.now = [this] { return now; };
    c.next_epoch = [n = std::uint64_t{0}](node_id) mutable { return epoch_id{++n}; };
    actor = system->spawn(actors::supervisor, c);
    run();
  }
  template <class M>
  void send(M m) {
    caf::anon_send(actor, std::move(m));
    run();
  }
  std::vector<std::string> take() { return std::exchange(log, {}); }
};

using lines = std::vector<std::string>;
const child_spec a{"a", node_id{10}, role::head, {2, 10s}};
const child_spec b{"b", node_id{11}, role::gateway, {2, 10s}};
const child_spec c{"c", node_id{12}, role::shard, {2, 10s}};

} // namespace

TEST_CASE("a child that was ready for a while is started again at once, however often") {
  world w;
  w.start({b});
  for (int life = 0; life < 2; ++life) {
    CAPTURE(life);
    w.send(status{b.node, w.epochs.back(), role::gateway, "b", phase::ready, "", 0, 0, 1});
    w.now += settled_after;
    (void)w.take();
    w.send(child_exited{b.node, w.epochs.back(), "killed by signal 9", false});
    CHECK(w.take() == lines{"start b"});
  }
  w.send(status{b.node, w.epochs.back(), role::gateway, "b", phase::ready, "", 0, 0, 1});
  w.now += settled_after;
  w.send(child_exited{b.node, w.epochs.back(), "killed by signal 9", false});
  CHECK(w.take() == lines{"escalate b"}); // twice in ten seconds is what it may
}

TEST_CASE("a child that was only loading for a while is not settled: its second end backs off") {
  world w;
  w.start({b});
  for (int life = 0; life < 2; ++life) {
    (void)w.take();
    w.send(status{b.node, w.epochs.back(), role::gateway, "b", phase::loading, "", 0, 0, 1});
    w.now += settled_after;
    w.send(child_exited{b.node, w.epochs.back(), "killed by signal 9", false});
  }
  CHECK(w.take().empty());
  CHECK(w.last[0].phase == phase::recovering);
}

TEST_CASE("children are started in order and one that dies is started again under a new epoch") {
  world w;
  w.start({a, b});
  CHECK(w.take() == lines{"start a", "start b"});
  w.send(status{b.node, w.epochs[1], role::gateway, "b", phase::ready, "", 0, 0, 1});
  CHECK(w.last[1].phase == phase::ready);
  w.send(child_exited{b.node, w.epochs[1], "killed by signal 9", false});
  CHECK(w.take() == lines{"start b"});
  CHECK(w.epochs[2] > w.epochs[1]);
  CHECK(w.last[1].restarts == 1);
  w.send(child_exited{b.node, w.epochs[1], "the same end once more", false});
  CHECK(w.take().empty());
}

TEST_CASE("a second restart waits and one too many is escalated by name") {
  world w;
  w.start({a});
  w.send(child_exited{a.node, w.epochs.back(), "exit status 1", false});
  w.send(child_exited{a.node, w.epochs.back(), "exit status 1", false});
  CHECK(w.take() == lines{"start a", "start a"});
  CHECK(w.last[0].phase == phase::recovering);
  w.now += 999ms;
  w.send(tick{});
  CHECK(w.take().empty());
  w.now += 1ms;
  w.send(tick{});
  CHECK(w.take() == lines{"start a"});
  w.send(child_exited{a.node, w.epochs.back(), "exit status 1", false});
  CHECK(w.take() == lines{"escalate a"});
  CHECK(w.last[0].phase == phase::failed);
  CHECK(w.last[0].reason.find("crash_loop") != std::string::npos);
}

TEST_CASE("a child that cannot be started counts as one that died") {
  world w;
  w.refuse_start = true;
  w.start({a});
  for (int i = 0; i < 3; ++i) {
    w.now += 2s;
    w.send(tick{});
  }
  CHECK(w.take() == lines{"escalate a"});
}

TEST_CASE("drain stops the children in reverse order and kills who does not go") {
  world w;
  w.start({a, b});
  w.take();
  w.send(drain{});
  CHECK(w.take() == lines{"stop b"});
  w.now += 5s;
  w.send(tick{});
  CHECK(w.take() == lines{"kill b"});
  w.send(child_exited{b.node, w.epochs[1], "killed by signal 9", false});
  CHECK(w.take() == lines{"stop a"});
  w.send(drain{});
  CHECK(w.take().empty());
  w.send(child_exited{a.node, w.epochs[0], "exit status 0", false});
  CHECK(w.take() == lines{"stopped"});
}

TEST_CASE("an end that a restart cannot help is not restarted") {
  world w;
  w.start({a});
  w.send(child_exited{a.node, w.epochs.back(), "exit status 78", true});
  w.now += 60s;
  w.send(tick{});
  CHECK(w.take() == lines{"start a", "escalate a"});
  CHECK(w.last[0].reason == "exit status 78");
}

TEST_CASE("a child that does not answer is killed and started again") {
  world w;
  w.start({a});
  w.take();
  const auto says_ready = [&](epoch_id epoch) {
    w.send(status{a.node, epoch, role::head, "a", phase::ready, "", 0, 0, 1});
  };
  says_ready(w.epochs[0]);
  w.send(peer_down{a.node, w.epochs[0], "silent for 2000 ms"});
  CHECK(w.last[0].phase == phase::recovering);
  CHECK(w.last[0].reason == "does not answer: silent for 2000 ms");
  w.now += supervisor_config{}.silence_max - 1ms;
  w.send(tick{});
  CHECK(w.take().empty());
  SUBCASE("unless it greets again in time") {
    w.send(peer_up{{a.node, w.epochs[0], role::head, "a", {}, {}, 0}});
    says_ready(w.epochs[0]);
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
    w.send(child_exited{a.node, w.epochs[0], "killed by signal 9", false});
    CHECK(w.take() == lines{"start a"});
    CHECK(w.last[0].restarts == 1);
    w.send(peer_down{a.node, w.epochs[0], "an earlier life"});
    w.now += 10s;
    w.send(tick{});
    CHECK(w.take().empty());
  }
  SUBCASE("not while it is asked to stop: that has a bound of its own") {
    w.send(drain{});
    CHECK(w.take() == lines{"stop a"});
    w.now += 1s;
    w.send(tick{});
    CHECK(w.take().empty());
  }
}

TEST_CASE("a child that waits for a processor is waited for, but not for ever") {
  world w;
  w.start({a});
  w.take();
  w.send(status{a.node, w.epochs[0], role::head, "a", phase::ready, "", 0, 0, 1});
  w.send(peer_down{a.node, w.epochs[0], "silent for 1500 ms"});
  w.is_starved = true;
  const auto wait = [&](std::chrono::milliseconds span) {
    for (const auto until = w.now + span; w.now < until; w.now += 100ms)
      w.send(tick{});
  };
  wait(supervisor_config{}.starvation_max - 1s);
  CHECK(w.take().empty());
  SUBCASE("and is well when it greets") {
    w.send(peer_up{{a.node, w.epochs[0], role::head, "a", {}, {}, 0}});
    w.is_starved = false;
    wait(20s);
    CHECK(w.take().empty());
  }
  SUBCASE("once it gets one and says nothing, it hangs") {
    w.is_starved = false;
    wait(supervisor_config{}.silence_max + 100ms);
    CHECK(w.take() == lines{"kill a"});
  }
  SUBCASE("nor if it never gets one") {
    wait(1s + supervisor_config{}.silence_max);
    CHECK(w.take() == lines{"kill a"});
  }
}

TEST_CASE("what has changed is told once, and all of it to a root that greets") {
  world w;
  w.start({a, b, c});
  CHECK(w.told.size() == 3);
  w.told.clear();
  w.send(status{b.node, w.epochs[1], role::gateway, "b", phase::ready, "", 0, 0, 1});
  REQUIRE(w.told.size() == 1);
  CHECK(w.told[0].name == "b");
  w.send(child_exited{c.node, w.epochs[2], "killed by signal 9", false});
  REQUIRE(w.told.size() == 1);
  CHECK(w.told[0].name == "c");
  CHECK(w.told[0].restarts == 1);
  w.told.clear();
  w.now += 60s;
  w.send(tick{});
  w.send(peer_up{{node_id{99}, epoch_id{5}, role::client, "status", {}, {}, 0}});
  CHECK(w.told.empty());
  w.send(peer_up{{node_id{1}, epoch_id{5}, role::root, "root", {}, {}, 0}});
  REQUIRE(w.told.size() == 3);
  CHECK(w.told[1].name == "b");
  CHECK(w.told[1].phase == phase::ready);
}

TEST_CASE("a child that another supervisor left goes on, and is restarted when it ends") {
  world w;
  w.left["a"] = {77, epoch_id{1000}};
  w.start({a, b});
  CHECK(w.take() == lines{"start b"});
  CHECK(w.last[0].pid == 77);
  CHECK(w.last[0].epoch == epoch_id{1000});
  CHECK(w.last[0].phase == phase::recovering);
  SUBCASE("as one that it started itself") {
    w.send(peer_up{{a.node, epoch_id{1000}, role::head, "a", {}, {}, 77}});
    w.send(status{a.node, epoch_id{1000}, role::head, "a", phase::ready, "", 0, 0, 1});
    CHECK(w.last[0].phase == phase::ready);
    w.now += 60s;
    w.send(tick{});
    CHECK(w.take().empty());
    w.send(child_exited{a.node, epoch_id{1000}, "gone", false});
    CHECK(w.take() == lines{"start a"});
  }
  SUBCASE("also before it has greeted") {
    w.send(child_exited{a.node, epoch_id{1000}, "gone", false});
    CHECK(w.take() == lines{"start a"});
  }
  SUBCASE("is killed first if it does not greet in time") {
    w.now += supervisor_config{}.adoption_max - 1ms;
    w.send(tick{});
    CHECK(w.take().empty());
    w.now += 1ms;
    w.send(tick{});
    CHECK(w.take() == lines{"kill a"});
    w.send(child_exited{a.node, epoch_id{1000}, "gone", false});
    CHECK(w.take() == lines{"start a"});
  }
  SUBCASE("is stopped with the others") {
    w.send(drain{});
    w.send(child_exited{b.node, w.epochs[0], "exit status 0", false});
    CHECK(w.take() == lines{"stop b", "stop a"});
  }
}

TEST_CASE("who goes down with a child that ended is said by the strategy") {
  world w;
  const auto ends = [&](const child_spec& who, std::size_t life, bool is_permanent = false) {
    w.send(child_exited{who.node, w.epochs[life], "killed by signal 9", is_permanent});
  };
  SUBCASE("nobody") {
    w.start({a, b, c});
    w.take();
    ends(b, 1);
    CHECK(w.take() == lines{"start b"});
  }
  SUBCASE("those that were started after it") {
    w.strategy = restart_strategy::rest_for_one;
    w.start({a, b, c});
    w.take();
    ends(b, 1);
    CHECK(w.take() == lines{"stop c"}); // b waits for its end
    ends(c, 2);
    CHECK(w.take() == lines{"start b", "start c"});
    CHECK(w.last[0].restarts == 0);
    CHECK(w.last[1].restarts == 1);
    CHECK(w.last[2].restarts == 0); // it was not its fault
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
  SUBCASE("who drains meanwhile stops what is left, and starts nothing") {
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

TEST_CASE("a child on another machine comes and goes as its link does, and is not started here") {
  world w;
  child_spec far{"far", node_id{20}, role::agent, {2, 10s}, true};
  w.start({a, far});
  CHECK(w.take() == lines{"start a"});
  CHECK(w.last[1].reason == "has not joined yet");
  hello greets;
  greets.node = far.node;
  greets.epoch = epoch_id{77};
  greets.pid = 4711;
  w.send(peer_up{greets});
  w.send(status{far.node, epoch_id{77}, role::agent, "far", phase::ready, "", 0, 0, 1});
  CHECK(w.last[1].phase == phase::ready);
  CHECK(w.last[1].pid == 4711);
  w.send(peer_down{far.node, epoch_id{77}, "silent"});
  CHECK(w.last[1].phase == phase::recovering);
  CHECK(w.last[1].reason == "cannot be reached: silent");
  w.now += 60s;
  w.send(tick{});
  CHECK(w.take().empty()); // nobody here can start or kill it
  greets.epoch = epoch_id{78};
  w.send(peer_up{greets});
  w.send(status{far.node, epoch_id{78}, role::agent, "far", phase::ready, "", 0, 0, 1});
  CHECK(w.last[1].phase == phase::ready);
  SUBCASE("it is asked to stop, and gone when its link is") {
    w.send(drain{});
    CHECK(w.take() == lines{"stop far"});
    w.send(peer_down{far.node, epoch_id{78}, "left"});
    CHECK(w.take() == lines{"stop a"});
  }
  SUBCASE("it is not waited for beyond the time that others have") {
    w.send(drain{});
    CHECK(w.take() == lines{"stop far"});
    w.now += 6s;
    w.send(tick{});
    CHECK(w.take() == lines{"stop a"});
  }
  SUBCASE("one that cannot be reached does not hold up the end") {
    w.send(peer_down{far.node, epoch_id{78}, "silent"});
    w.send(drain{});
    CHECK(w.take() == lines{"stop a"});
  }
}

TEST_CASE("a child that is not wanted any more stops for good, a new one is started") {
  world w;
  w.start({a, b});
  (void)w.take();
  w.send(wanted_children{{b, c}});
  CHECK(w.take() == lines{"stop a", "start c"});
  w.send(wanted_children{{b, c}}); // said again
  CHECK(w.take().empty());
  w.send(child_exited{a.node, epoch_id{1}, "exit status 0", false});
  CHECK(w.take() == lines{"retired a"});
  hello root;
  root.node = node_id{1};
  root.role = role::root;
  w.send(peer_up{root}); // hears of all that are left
  REQUIRE(w.told.size() == 2);
  CHECK(w.told[0].name == "b");
  CHECK(w.told[1].name == "c");
  w.now += 60s;
  w.send(tick{});
  CHECK(w.take().empty());
}

TEST_CASE("a child that does not stop though nobody wants it is killed") {
  world w;
  w.start({a});
  (void)w.take();
  w.send(wanted_children{});
  w.now += 5s;
  w.send(tick{});
  CHECK(w.take() == lines{"stop a", "kill a"});
  w.send(child_exited{a.node, epoch_id{1}, "killed by signal 9", false});
  CHECK(w.take() == lines{"retired a"});
}

TEST_CASE("a child that is down when nobody wants it any more is forgotten at once") {
  world w;
  w.start({a, b});
  (void)w.take();
  w.send(child_exited{a.node, epoch_id{1}, "killed by signal 9", false}); // started again at once
  w.send(child_exited{a.node, epoch_id{3}, "killed by signal 9", false}); // backs off
  (void)w.take();
  w.send(wanted_children{{b}});
  CHECK(w.take() == lines{"retired a"});
  w.now += 60s;
  w.send(tick{});
  CHECK(w.take().empty());
}

TEST_CASE("while all stop, nobody new is wanted") {
  world w;
  w.start({a});
  w.send(drain{});
  (void)w.take();
  w.send(wanted_children{{b}});
  CHECK(w.take().empty());
  w.send(child_exited{a.node, epoch_id{1}, "exit status 0", false});
  CHECK(w.take() == lines{"stopped"});
}
