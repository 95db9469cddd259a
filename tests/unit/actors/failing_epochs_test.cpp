// A pipeline whose epochs always fail at once: the frequency of new epochs, the errors of waiting
// requests, and the recovery once the fault is gone.
#include "tests/unit/actors/flow_world.hpp"

using namespace baton;
using namespace baton::actors;
using namespace baton::actors::flow;
using namespace std::chrono_literals;

namespace {

// In front of the first stage: every step loses the epoch, as for ranks whose communicator is
// refused.
stage_actor::behavior_type refuser(stage_actor::pointer, flow_world* w, stage_actor real) {
  return {
      [real](const open_epoch& m) { caf::anon_send(real, m); },
      [w, real](micro_batch& m) {
        caf::anon_send(
            w->sched,
            sampled{
                m.batch, m.epoch, {}, {}, error{errc::stale_epoch, "two ranks on one device", {}}});
        // Its link to the head is up again: it announces itself.
        caf::anon_send(real,
                       peer_up{{head_process, incarnation_id{1}, role::head, "head", "", "", 0}});
      },
      [real](const sampled& m) { caf::anon_send(real, m); },
      [real](const peer_up& m) { caf::anon_send(real, m); },
      [real](const peer_down& m) { caf::anon_send(real, m); },
  };
}

struct failing_world : flow_world {
  stage_actor healthy;

  void refuse() {
    run();
    healthy = stages.at(shard_process(0));
    behind.push_back(healthy);
    stages[shard_process(0)] = system->spawn(refuser, this, healthy);
  }
  void heal() {
    behind.push_back(stages.at(shard_process(0)));
    stages[shard_process(0)] = healthy;
    behind.erase(std::find(behind.begin(), behind.end(), healthy));
    healthy = nullptr;
  }
  ~failing_world() { healthy = nullptr; }
  void pass(std::chrono::milliseconds span) {
    for (const auto until = now + span; now < until;) {
      now += 50ms;
      caf::anon_send(sched, tick{});
      run();
    }
  }
  std::uint64_t epochs() {
    pass(report_interval);
    return gateway.loads.back().epochs;
  }
  const model_card& card() const { return gateway.cards.back(); }
};

} // namespace

TEST_CASE(
    "epochs that fail at their first step are opened ever later, and the phase has the reason") {
  failing_world w;
  w.refuse();
  REQUIRE(w.card().phase == phase::ready);
  w.ask(ids_prompt{10, 20, 30}, 6);
  w.run();
  const auto at_once = w.epochs();
  CHECK(at_once <= 2 + 1);
  CHECK(w.card().phase == phase::recovering);
  w.pass(30s);
  CHECK(w.epochs() <= 10);
  CHECK(w.epochs() >= 6); // it keeps trying
  CHECK(w.card().phase == phase::recovering);
  CHECK(w.card().reason.find("epochs in a row failed, the last one: stage 0 lost the epoch: "
                             "two ranks on one device") != std::string::npos);
}

TEST_CASE(
    "a request for a pipeline with failing epochs gets the reason within the recovery timeout") {
  failing_world w;
  w.refuse();
  const auto ticket = w.ask(ids_prompt{10, 20, 30}, 6);
  w.run();
  w.pass(59s);
  CHECK(w.gateway.refusals.empty());
  w.pass(15s);
  REQUIRE(w.gateway.refusals.size() == 1);
  const auto& end = w.gateway.refusals.front();
  CHECK(end.ticket == ticket);
  CHECK(end.reason.code == errc::pipeline_lost);
  CHECK(end.reason.message.find("two ranks on one device") != std::string::npos);
  // A later request does not wait as long again.
  w.gateway.refusals.clear();
  reserve r{77, gateway_process, "toy", 1, 10};
  caf::anon_send(w.sched, r);
  w.run();
  w.pass(20s);
  REQUIRE(w.gateway.refusals.size() == 1);
  const auto code = w.gateway.refusals.front().reason.code;
  CHECK((code == errc::not_ready || code == errc::pipeline_lost));
}

TEST_CASE("without requests, a pipeline is not ready before a step came back") {
  failing_world w;
  w.refuse();
  w.ask(ids_prompt{10, 20, 30}, 6);
  w.run();
  w.pass(80s);
  REQUIRE(w.gateway.refusals.size() == 1);
  for (int i = 0; i < 20; ++i) {
    w.pass(5s);
    CHECK(w.card().phase == phase::recovering);
  }
  const auto epochs = w.epochs();
  w.pass(60s);
  CHECK(w.epochs() - epochs <= 5);
  w.heal();
  w.pass(epoch_pause_max + epoch_held_after + 1s);
  CHECK(w.card().phase == phase::ready);
  CHECK(w.card().reason.empty());
  CHECK(w.gateway.refusals.size() == 1); // and no result of that step was delivered
  CHECK(w.gateway.chunks.empty());
  w.gateway.refusals.clear(); // a request is numbered by the number of answers
  const ids_prompt ids{10, 20, 30};
  const auto ticket = w.ask(ids, 6);
  w.run();
  CHECK(w.of(ticket).ids == oracle(ids, 6));
}

TEST_CASE("a request that waits through the fault gets its answer afterwards") {
  failing_world w;
  w.refuse();
  const ids_prompt ids{10, 20, 30};
  const auto ticket = w.ask(ids, 6);
  w.run();
  w.pass(20s);
  w.heal();
  w.pass(epoch_pause_max + 1s);
  CHECK(w.of(ticket).ids == oracle(ids, 6));
  CHECK(w.of(ticket).ends == 1);
}
