// The supervisor actor on CAF's testing scheduler: starts, restarts, gives up, stops in reverse. No
// process, no sleep.
#include "actors/supervisor.hpp"

#include <caf/scheduler/test_coordinator.hpp>
#include <doctest/doctest.h>

using namespace baton;
using namespace baton::actors;
using namespace std::chrono_literals;

namespace {

struct world {
  caf::actor_system_config caf_config;
  std::unique_ptr<caf::actor_system> system;
  time_point now{};
  std::vector<std::string> log;
  std::vector<status> last;
  std::vector<epoch_id> epochs;
  bool refuse_start = false;
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
    c.changed = [this](const std::vector<status>& all) { last = all; };
    c.escalate = [this](const status& s) { log.push_back("escalate " + s.name); };
    c.stopped = [this] { log.push_back("stopped"); };
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
