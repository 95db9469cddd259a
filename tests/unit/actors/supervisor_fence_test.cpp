// A child that survives SIGKILL: its next incarnation starts beside it, or waits.
#include "tests/unit/actors/supervisor_world.hpp"

using namespace baton;
using namespace baton::actors;
using namespace baton::actors::supervised;

namespace {

const auto fence_max = supervisor_config{}.fence_max;
const auto silence_max = supervisor_config{}.silence_max;

// Killed for its silence, and still there.
void fall_silent(supervisor_world& w, const child_spec& who) {
  w.start({who});
  w.send(status{who.process, w.incarnations[0], who.role, who.name, phase::ready, "", 0, 0, 1});
  w.send(peer_down{who.process, w.incarnations[0], "silent for 1500 ms"});
  w.now += silence_max;
  w.send(tick{});
  (void)w.take();
}

void wait(supervisor_world& w, std::chrono::milliseconds span) {
  for (const auto until = w.now + span; w.now < until;) {
    w.now += 100ms;
    w.send(tick{});
  }
}

} // namespace

TEST_CASE(
    "the next incarnation of a child that does not die starts after a deadline, in a later epoch") {
  supervisor_world w;
  fall_silent(w, c);
  wait(w, fence_max - 100ms);
  CHECK(w.take() == lines{"kill c"}); // again
  wait(w, 100ms);
  CHECK(w.take() == lines{"abandon c", "start c"});
  REQUIRE(w.incarnations.size() == 2);
  CHECK(w.incarnations[1] > w.incarnations[0]);
  CHECK(w.last[0].restarts == 1);
  const auto is_up = [&] {
    w.send(status{c.process, w.incarnations[1], role::shard, "c", phase::ready, "", 0, 0, 1});
    CHECK(w.last[0].phase == phase::ready);
  };
  SUBCASE("and replaces it, whatever is received from the old one") {
    is_up();
    w.send(
        status{c.process, w.incarnations[0], role::shard, "c", phase::failed, "a zombie", 0, 0, 1});
    w.send(peer_down{c.process, w.incarnations[0], "silent"});
    wait(w, 2 * fence_max);
    CHECK(w.take().empty());
    CHECK(w.last[0].phase == phase::ready);
  }
  SUBCASE("and continues when the old one has ended at last") {
    is_up();
    w.send(child_exited{c.process, w.incarnations[0], "killed by signal 9", false});
    CHECK(w.take().empty());
    CHECK(w.last[0].phase == phase::ready);
    CHECK(w.last[0].restarts == 1);
  }
  SUBCASE("and is killed in its turn, with the same wait") {
    w.send(peer_down{c.process, w.incarnations[1], "silent for 1500 ms"});
    wait(w, silence_max);
    CHECK(w.take() == lines{"kill c"});
    w.send(child_exited{c.process, w.incarnations[1], "killed by signal 9", false});
    wait(w, 1s); // of back-off
    CHECK(w.take() == lines{"start c"});
  }
  SUBCASE("and a stop does not wait for the old one") {
    is_up();
    w.send(drain{});
    CHECK(w.take() == lines{"stop c"});
    w.send(child_exited{c.process, w.incarnations[1], "exit status 0", false});
    CHECK(w.take() == lines{"stopped"});
  }
}

TEST_CASE("each one left behind counts as a restart") {
  supervisor_world w;
  auto once = c;
  once.intensity = {1, 60s};
  fall_silent(w, once);
  wait(w, fence_max);
  CHECK(w.take() == lines{"kill c", "abandon c", "start c"});
  w.send(peer_down{c.process, w.incarnations[1], "silent for 1500 ms"});
  wait(w, silence_max + fence_max);
  CHECK(w.take() == lines{"kill c", "kill c", "abandon c", "escalate c"});
  CHECK(w.last[0].reason.find("did not end within 10000 ms of SIGKILL") != std::string::npos);
}

TEST_CASE("a child whose process id cannot be used twice is killed until it ends") {
  supervisor_world w;
  fall_silent(w, b);
  wait(w, 2 * fence_max);
  const auto log = w.take();
  CHECK(std::count(log.begin(), log.end(), "abandon b") == 2);
  CHECK(std::count(log.begin(), log.end(), "kill b") >= 3);
  CHECK(std::count(log.begin(), log.end(), "start b") == 0);
  w.send(child_exited{b.process, w.incarnations[0], "killed by signal 9", false});
  CHECK(w.take() == lines{"start b"});
}
