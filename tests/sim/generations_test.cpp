// Layers move between shards while streams run: another generation of shards starts beside the
// serving one, takes over between two micro-batches, and the old one ends.
#include "tests/sim/scenario.hpp"

#include <algorithm>

using namespace baton;
using namespace baton::sim;

namespace {

// One to three stages, each of one to three ranks.
layout some_layout(world& w) {
  std::set<std::uint32_t> first{0};
  for (auto n = w.draw(3); n > 0; --n)
    first.insert(static_cast<std::uint32_t>(1 + w.draw(layers_of_toy - 1)));
  const auto width = w.draw(3) > 0 ? 1 : 1 + w.draw(3);
  return {{first.begin(), first.end()}, static_cast<std::uint32_t>(width)};
}

void put_under_load(world& w) {
  for (int i = 0; i < 4; ++i)
    w.open(some_plan(w));
  w.run_for(std::chrono::milliseconds(w.draw(40)));
}

// No process of another generation is alive, and the scheduler uses the generations that the root
// has recorded.
void check_settled(world& w) {
  CHECK_FALSE(w.plan().now.coming);
  const auto planned = w.planned_shards();
  for (const auto& [process, l] : w.running())
    if (l.links->self().role == role::shard)
      CHECK(std::find(planned.begin(), planned.end(), process) != planned.end());
  REQUIRE(w.scheduler());
  CHECK(w.scheduler()->pipeline->generation() == w.plan().now.serving.number);
  CHECK(w.scheduler()->pipeline->stages() == w.plan().now.serving.stages);
  CHECK(w.scheduler()->pipeline->width() == w.plan().now.serving.width);
}

bool wait_for(world& w, const std::function<bool()>& is_so, std::chrono::milliseconds most) {
  for (const auto until = w.now() + most; w.now() < until && !is_so();)
    w.run_for(10ms);
  return is_so();
}

} // namespace

TEST_CASE("layers move between shards while streams run, and streams only pause") {
  std::uint64_t moved_under_load = 0, kept = 0;
  for_seeds([&](std::uint64_t seed) {
    world w(supervised_options(seed));
    w.run_for(1s);
    for (std::uint32_t change = 1; change <= 3; ++change) {
      put_under_load(w);
      REQUIRE(w.repartition(some_layout(w)));
      CHECK_FALSE(w.repartition({{0}})); // one at a time
      REQUIRE(wait_for(
          w, [&] { return w.plan().now.serving.number == change; }, 5s));
      moved_under_load += w.open_clients() > 0 ? 1 : 0;
      kept += w.scheduler()->pipeline->keeps_kv() ? 1 : 0;
    }
    check_rest(w);
    check_failures(w, {});
    check_settled(w);
    CHECK(w.load().epochs == 4);                              // only the necessary ones
    CHECK(w.scheduler()->core->counted().stale_results == 0); // no step was computed in vain
  });
  if (!chosen().seed)
    CHECK((moved_under_load > 0 && kept > 0));
}

TEST_CASE("after deaths, hangs and cuts while layers move, all streams equal the oracle's") {
  std::uint64_t moves = 0;
  for_seeds([&](std::uint64_t seed) {
    world w(supervised_options(seed));
    live_through(w, 30, [&] {
      if (w.draw(2) == 0)
        w.repartition(some_layout(w));
      w.run_for(std::chrono::milliseconds(w.draw(30)));
      auto victim = some_shard(w); // of either generation
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
        w.network().partition(victim, head_process);
        w.network().partition(head_process, victim);
        w.run_for(std::chrono::milliseconds(w.draw(3000)));
        w.network().heal_all();
        return;
      case 3:
        w.freeze(victim); // only a kill helps
        w.run_for(std::chrono::milliseconds(w.draw(3000)));
        return;
      default:
        break;
      }
      w.crash(victim);
    });
    check_rest(w);
    check_failures(w, after_losses);
    CHECK(wait_for(
        w, [&] { return !w.plan().now.coming; }, 120s));
    w.run_for(10s); // an unwanted process has been killed by then
    check_settled(w);
    moves += w.plan().now.serving.number > 0 ? 1 : 0;
    REQUIRE(w.repartition(some_layout(w)));
    w.open({.input = {1, 2, 3}, .max_tokens = 5});
    CHECK(wait_for(
        w, [&] { return !w.plan().now.coming; }, 10s));
    CHECK(w.plan().now.serving.number == w.plan().last);
    check_rest(w);
    CHECK(w.clients().back()->is_complete());
    check_settled(w);
  });
  if (!chosen().seed)
    CHECK(moves > 0);
}

TEST_CASE("shards that are to take over lost KV start from the log, and no stream changes") {
  std::uint64_t lost = 0;
  for_seeds([&](std::uint64_t seed) {
    world w(supervised_options(seed));
    w.run_for(1s);
    put_under_load(w);
    const auto before = w.planned_shards();
    REQUIRE(w.repartition(some_layout(w)));
    // The new shards know whose KV to take over, but none has asked for it yet.
    REQUIRE(w.run_until([&] { return w.scheduler() && w.scheduler()->pipeline->generation() == 1; },
                        5s));
    for (const auto process : before)
      if (process == before.front() || w.draw(2) == 0)
        w.lose_memory(process);
    const auto failed_before = w.takes_failed();
    REQUIRE(wait_for(
        w, [&] { return w.plan().now.serving.number == 1; }, 5s));
    const bool found_none = w.takes_failed() > failed_before;
    CHECK_FALSE((found_none && w.scheduler()->pipeline->keeps_kv()));
    lost += found_none ? 1 : 0;
    check_rest(w);
    check_failures(w, {});
    check_settled(w);
  });
  if (!chosen().seed)
    CHECK(lost > 0);
}

TEST_CASE("shards of a lost machine are replaced, and streams continue from the log") {
  std::uint64_t under_load = 0;
  for_seeds([&](std::uint64_t seed) {
    world w(supervised_options(seed));
    w.run_for(1s);
    for (std::uint32_t change = 1; change <= 3; ++change) {
      put_under_load(w);
      w.crash(some_shard(w));
      w.run_for(std::chrono::milliseconds(w.draw(60))); // it may be back
      under_load += w.open_clients() > 0 ? 1 : 0;
      REQUIRE(w.replace(some_layout(w)));
      const auto& now = w.plan().now;
      CHECK(now == generations{{change, now.serving.stages, {}, now.serving.width}, std::nullopt});
      if (w.draw(4) == 0)
        w.crash(head_process);
    }
    check_rest(w);
    check_failures(w, after_losses);
    w.run_for(10s); // an unwanted process has been killed by then
    check_settled(w);
    w.open({.input = {1, 2, 3}, .max_tokens = 5});
    check_rest(w);
    CHECK(w.clients().back()->is_complete());
  });
  if (!chosen().seed)
    CHECK(under_load > 0);
}

TEST_CASE("shards that cannot start are given up, and the serving ones are not affected") {
  for_seeds(
      [](std::uint64_t seed) {
        auto o = supervised_options(seed);
        o.intensity = {3, 30s};
        world w(o);
        w.run_for(1s);
        for (int i = 0; i < 4; ++i)
          w.open(some_plan(w));
        w.network().partition(shard_process(0, 1), head_process); // otherwise it may be in time
        w.network().partition(head_process, shard_process(0, 1));
        REQUIRE(w.repartition(some_layout(w)));
        for (int i = 0; i < 400 && w.plan().now.coming; ++i) {
          w.crash(shard_process(0, 1));
          w.run_for(20ms);
        }
        CHECK(w.plan().now.serving.number == 0);
        check_rest(w);
        check_failures(w, {});
        check_settled(w);
        CHECK(w.load().epochs == 1);
        CHECK(w.load().recoveries == 0);
      },
      /*stride=*/5);
}
