// Actors on the bus's thread. A simulated network delivers messages on the test's thread, which
// stands for the bus's; CAF's testing scheduler stands for the workers.
#include "cluster/bus/proxy.hpp"
#include "tests/unit/bus/bus_processes.hpp"
#include "tests/unit/bus/sim_process.hpp"

#include <caf/scheduler/test_coordinator.hpp>

using namespace baton;
using namespace baton::testing;
using namespace std::chrono_literals;

namespace {

actors::stage_actor::behavior_type noting_stage(actors::stage_actor::pointer,
                                                std::vector<std::uint64_t>* seen) {
  return {
      [seen](const open_epoch& m) { seen->push_back(m.epoch.value); },
      [](micro_batch&) {},
      [](const sampled&) {},
      [](const actors::peer_up&) {},
      [](const actors::peer_down&) {},
  };
}

struct world {
  static constexpr std::size_t messages_per_round = 2;

  testing_config config;
  caf::actor_system system{config};
  std::vector<std::uint64_t> seen;
  actors::stage_actor stage = system.spawn(noting_stage, &seen);
  std::optional<cluster::pinned_actors> pinned{std::in_place, system, messages_per_round};
  sim_network net{5};
  sim_process sender{net, process_id{1}, incarnation_id{1}, ""};
  sim_process receiver{net, process_id{2}, incarnation_id{1}, ""};

  world() {
    workers().run(); // it has started
    cluster::deliver_to(*receiver.links, actors::well_known::stage, stage);
    receiver.connect(sender);
    run_network();
    REQUIRE(sender.links->is_up(process_id{2}));
  }
  ~world() {
    receiver.links->stop();
    sender.links->stop();
    pinned.reset();
    caf::anon_send_exit(stage, caf::exit_reason::user_shutdown);
    stage = nullptr;
    workers().run();
  }

  caf::scheduler::test_coordinator& workers() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  }
  void run_network() {
    for (int i = 0; i < 50; ++i) {
      net.run_for(20ms);
      sender.tick();
      receiver.tick();
    }
  }
  void send(std::uint64_t epoch) {
    sender.links->post(process_id{2}, actors::well_known::stage,
                       message(open_epoch{epoch_id{epoch}, 0, {}, 0, 1, std::nullopt}));
  }
};

using numbers = std::vector<std::uint64_t>;

} // namespace

TEST_CASE("a pinned actor runs on the thread that delivers its messages, in their order") {
  world w;
  w.pinned->add(w.stage);
  CHECK_FALSE(w.pinned->run());
  for (std::uint64_t i = 1; i <= 5; ++i)
    w.send(i);
  w.run_network();
  CHECK_FALSE(w.workers().has_job());
  CHECK(w.seen.empty());
  CHECK(w.pinned->run()); // two at a time
  CHECK(w.seen == numbers{1, 2});
  CHECK(w.pinned->run());
  CHECK_FALSE(w.pinned->run());
  CHECK(w.seen == numbers{1, 2, 3, 4, 5});
  w.send(6); // it was released, and comes back
  w.run_network();
  CHECK_FALSE(w.pinned->run());
  CHECK(w.seen.back() == 6);
}

TEST_CASE("an unpinned actor is run by the workers, and so are messages from other threads") {
  world w;
  CHECK_FALSE(w.pinned->run());
  w.send(1);
  w.run_network();
  CHECK(w.workers().has_job());
  CHECK_FALSE(w.pinned->run());
  CHECK(w.seen.empty());
  w.workers().run();
  CHECK(w.seen == numbers{1});
  w.pinned->add(w.stage);
  caf::anon_send(w.stage, open_epoch{epoch_id{2}, 0, {}, 0, 1, std::nullopt});
  CHECK(w.workers().has_job());
  w.send(3); // after it in the mailbox, on whichever thread that runs
  w.run_network();
  CHECK_FALSE(w.pinned->run());
  w.workers().run();
  CHECK(w.seen == numbers{1, 2, 3});
}

TEST_CASE("messages that have not run when the bus ends are left to the workers") {
  world w;
  w.pinned->add(w.stage);
  w.pinned->run();
  for (std::uint64_t i = 1; i <= 5; ++i)
    w.send(i);
  w.run_network();
  CHECK(w.pinned->run());
  w.pinned.reset();
  CHECK(cluster::pinned_actors::here() == nullptr);
  w.workers().run();
  CHECK(w.seen == numbers{1, 2, 3, 4, 5});
}
