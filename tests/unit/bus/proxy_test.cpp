// Typed proxies: two actor systems, two message routers, one simulated network.
#include "cluster/bus/proxy.hpp"
#include "tests/unit/bus/bus_processes.hpp"
#include "tests/unit/bus/sim_process.hpp"

#include <caf/scheduler/test_coordinator.hpp>

using namespace baton;
using namespace baton::testing;
using namespace std::chrono_literals;
using cluster::deliver_to;
using cluster::make_proxy;

namespace {

struct host {
  testing_config config;
  caf::actor_system system{config};
  sim_process process;

  host(sim_network& net, process_id id, cluster::message_router_options o = {})
      : process(net, id, incarnation_id{1}, "", std::move(o)) {}
  void run() { dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler()).run(); }
};

struct seen {
  std::vector<std::string> what;
  std::vector<micro_batch> batches;
};

actors::stage_actor::behavior_type stage_of(actors::stage_actor::pointer, seen* s) {
  return {
      [s](const open_epoch& m) { s->what.push_back(fmt::format("open_epoch {}", m.epoch.value)); },
      [s](micro_batch& m) {
        s->what.push_back(fmt::format("micro_batch {}", m.batch.value));
        s->batches.push_back(std::move(m));
      },
      [s](const sampled& m) { s->what.push_back(fmt::format("sampled {}", m.batch.value)); },
      [s](const actors::peer_up&) { s->what.emplace_back("peer_up"); },
      [s](const actors::peer_down&) { s->what.emplace_back("peer_down"); },
  };
}

} // namespace

TEST_CASE("a proxy carries every message of its signature that crosses processes, and no other") {
  sim_network net(5);
  cluster::message_router_options small;
  small.link.window_bytes = 4096;
  host h(net, head_process, small);
  host s(net, shard_process, small);
  seen there;
  auto stage = s.system.spawn(stage_of, &there);
  deliver_to(*s.process.links, actors::well_known::stage, stage);
  s.process.connect(h.process);
  auto run = [&] {
    for (int i = 0; i < 100; ++i) {
      net.run_for(20ms);
      h.process.tick();
      s.process.tick();
      h.run();
      s.run();
    }
  };
  auto proxy = make_proxy<actors::stage_actor>(h.system, *h.process.links, shard_process,
                                               actors::well_known::stage);
  SUBCASE("while the peer is down messages are dropped and counted") {
    caf::anon_send(proxy, open_epoch{epoch_id{3}, 0, {}, 0, 1, std::nullopt});
    CHECK(h.process.links->counters().dropped == 1);
    run();
    CHECK(there.what.empty());
  }
  SUBCASE("in order, with leases that give credit back") {
    run();
    REQUIRE(h.process.links->is_up(shard_process));
    caf::anon_send(proxy, open_epoch{epoch_id{3}, 0, {}, 0, 1, std::nullopt});
    caf::anon_send(proxy, actors::peer_down{});
    for (std::uint64_t i = 1; i <= 20; ++i)
      caf::anon_send(proxy, sim_process::batch_of(i, 256));
    for (int round = 0; round < 20; ++round) {
      run();
      there.batches.clear();
    }
    REQUIRE(there.what.size() == 21);
    CHECK(there.what[0] == "open_epoch 3");
    CHECK(there.what[20] == "micro_batch 20");
    CHECK(h.process.links->peers().at(0).outstanding_bytes == 0);
  }
  SUBCASE("a kind that the actor does not accept is counted") {
    run();
    CHECK(h.process.links->send(shard_process, actors::well_known::stage, message(cancel{})) ==
          cluster::sent::ok);
    run();
    CHECK(there.what.empty());
    CHECK(s.process.links->counters().unknown_actor == 1);
  }
  SUBCASE("a message with several owners is copied, not moved") {
    run();
    auto shared = caf::make_message(sim_process::batch_of(1, 8));
    auto again = shared;
    caf::anon_send(caf::actor_cast<caf::actor>(proxy), shared);
    CHECK(again.get_as<micro_batch>(0).tokens.size() == 1);
    run();
    CHECK(there.what.size() == 1);
  }
  s.process.links->stop();
  h.process.links->stop();
  caf::anon_send_exit(stage, caf::exit_reason::user_shutdown);
  stage = nullptr;
  s.run();
}
