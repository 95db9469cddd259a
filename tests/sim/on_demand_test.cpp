// A model that its requests load: its shards come and go as generations, and no request that waits
// for it is lost.
#include "tests/sim/scenario.hpp"

using namespace baton;
using namespace baton::sim;

namespace {

world_options on_demand_options(std::uint64_t seed) {
  auto o = supervised_options(seed);
  o.on_demand = true;
  o.idle_timeout = std::chrono::milliseconds(50 + seed % 7 * 100);
  return o;
}

std::uint64_t loads_of(const world& w) {
  return w.on_demand() ? w.on_demand()->loads_of(0).loads : 0;
}

} // namespace

TEST_CASE("requests load their model, idleness unloads it, and every stream has its text") {
  std::uint64_t loads = 0, streams = 0;
  for_seeds([&](std::uint64_t seed) {
    world w(on_demand_options(seed));
    w.run_for(500ms);
    CHECK(w.planned_shards().empty());
    CHECK(w.stands() == phase::ready);
    for (int i = 0; i < 6; ++i) {
      for (auto n = 1 + w.draw(3); n > 0; --n)
        w.open(some_plan(w));
      w.run_for(std::chrono::milliseconds(w.draw(1500)));
    }
    check_rest(w);
    check_failures(w, {});
    w.run_for(5s);
    CHECK(w.planned_shards().empty());
    CHECK(w.on_demand()->loads_of(0).phase == phase::unloaded);
    CHECK(w.on_demand()->loads_of(0).failures == 0);
    loads += loads_of(w);
    streams += w.clients().size();
  });
  if (!chosen().seed)
    CHECK((loads > 1 && loads < streams)); // some joined a load
}

TEST_CASE("whatever dies while a model comes and goes, all streams equal the oracle's") {
  std::uint64_t loads = 0;
  for_seeds([&](std::uint64_t seed) {
    world w(on_demand_options(seed));
    live_through(w, 30, [&] {
      const auto shards = w.planned_shards();
      auto victim = shards.empty() ? head_process : shards[w.draw(shards.size())];
      switch (w.draw(8)) {
      case 0:
        victim = head_process;
        break;
      case 1:
        w.crash(root_process);
        w.run_for(std::chrono::milliseconds(w.draw(200)));
        w.restart(root_process);
        return;
      case 2:
        victim = gateway_process;
        break;
      case 3:
        w.network().partition(victim, root_process);
        w.network().partition(root_process, victim);
        w.run_for(std::chrono::milliseconds(w.draw(3000)));
        w.network().heal_all();
        return;
      case 4:
        w.freeze(victim); // only a kill helps
        w.run_for(std::chrono::milliseconds(w.draw(3000)));
        return;
      case 5: // idle for a while, so that it is unloaded
        w.run_for(std::chrono::milliseconds(w.draw(3000)));
        return;
      default:
        break;
      }
      w.crash(victim);
    });
    check_rest(w);
    check_failures(w, after_losses);
    w.run_for(15s); // an unwanted process has been killed by then
    CHECK(w.planned_shards().empty());
    w.open({.input = {1, 2, 3}, .max_tokens = 5});
    check_rest(w);
    CHECK(w.clients().back()->is_complete());
    loads += loads_of(w);
  });
  CHECK(loads > 0);
}

TEST_CASE("a model that cannot be loaded ends its requests, and is tried after pauses alone") {
  for_seeds(
      [&](std::uint64_t seed) {
        world w(on_demand_options(seed));
        std::uint64_t tries = 0;
        w.refuses_load = [&] {
          ++tries;
          return true;
        };
        w.run_for(500ms);
        for (int i = 0; i < 30; ++i) {
          w.open(some_plan(w));
          w.run_for(std::chrono::milliseconds(100 + w.draw(1500)));
        }
        check_rest(w);
        check_failures(w, {errc::not_ready, errc::overloaded});
        for (const auto& c : w.clients())
          CHECK(c->failure());
        CHECK(tries > 1);
        CHECK(tries < 15); // pauses of 0, 1, 1, 2, 3, 5, 8 and 13 s
        w.refuses_load = nullptr;
        w.run_for(15s);
        w.open({.input = {1, 2, 3}, .max_tokens = 5});
        check_rest(w);
        CHECK(w.clients().back()->is_complete());
      },
      4);
}
