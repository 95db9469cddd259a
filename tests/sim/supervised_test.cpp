// The process tree: a root's real supervisor over simulated processes, which only it starts.
#include "tests/sim/scenario.hpp"

#include <algorithm>

using namespace baton;
using namespace baton::sim;

namespace {

std::size_t count_of(const world& w, const std::string& line) {
  return static_cast<std::size_t>(std::count(w.supervised().begin(), w.supervised().end(), line));
}

// Now and then a process dies or hangs until it is killed.
void crash_or_freeze(world& w, process_id victim, bool dies) {
  if (dies)
    w.crash(victim);
  else
    w.freeze(victim);
  w.run_for(std::chrono::milliseconds(w.draw(4000)));
}

} // namespace

TEST_CASE("children that die or hang are restarted, and the cluster recovers") {
  for_seeds(
      [](std::uint64_t seed) {
        world w(supervised_options(seed));
        const auto all = all_processes(w);
        live_through(w, 12, [&] {
          const auto victim = all[w.draw(all.size())];
          crash_or_freeze(w, victim, w.draw(2) == 0);
        });
        check_rest(w);
        if (!w.is_alive(gateway_process))
          return;
        w.open({.input = {1, 2, 3}, .max_tokens = 5});
        CHECK(w.run_until_ended(patience));
        CHECK(w.clients().back()->is_complete());
      },
      /*stride=*/2);
}

TEST_CASE("streams continue without the root, and the next root adopts the running processes") {
  for_seeds(
      [](std::uint64_t seed) {
        world w(supervised_options(seed));
        auto all = all_processes(w);
        all.insert(all.end(), 4, root_process);
        live_through(w, 12, [&] {
          const auto victim = all[w.draw(all.size())];
          crash_or_freeze(w, victim, w.draw(3) != 0);
          if (w.draw(2) == 0) {
            w.crash(root_process); // a frozen root would have no successor
            w.restart(root_process);
          }
        });
        w.release(root_process);
        check_rest(w);
      },
      /*stride=*/2);
}

TEST_CASE("no stream notices the death of a root that is replaced") {
  for_seeds(
      [](std::uint64_t seed) {
        world w(supervised_options(seed));
        w.run_for(2s);
        const auto starts = w.supervised().size();
        for (int i = 0; i < 4; ++i)
          w.open(some_plan(w));
        w.run_for(std::chrono::milliseconds(w.draw(100)));
        w.crash(root_process);
        w.run_for(std::chrono::milliseconds(w.draw(3000)));
        w.restart(root_process);
        check_rest(w);
        w.run_for(20s); // an unknown adopted process has been killed by then
        const auto& lines = w.supervised();
        CHECK(std::all_of(lines.begin() + static_cast<std::ptrdiff_t>(starts), lines.end(),
                          [](const std::string& line) { return line.starts_with("adopt "); }));
        check_promises(w);
      },
      /*stride=*/5);
}

TEST_CASE("a child that hangs permanently is killed and restarted") {
  for_seeds(
      [](std::uint64_t seed) {
        world w(supervised_options(seed));
        w.run_for(1s);
        const auto all = all_processes(w);
        const auto victim = all[w.draw(all.size())];
        w.freeze(victim);
        w.run_for(10s);
        CHECK(w.is_alive(victim));
        CHECK_FALSE(w.is_anyone_held());
        check_rest(w);
      },
      /*stride=*/10);
}

TEST_CASE("a child that dies at each start is given up after the allowed number of restarts") {
  for_seeds(
      [](std::uint64_t seed) {
        auto o = supervised_options(seed);
        o.intensity = {3, 30s};
        world w(o);
        const auto name = w.draw(2) == 0 ? std::string("shard-0") : std::string("gateway");
        const auto process = name == "gateway" ? gateway_process : shard_process(0);
        for (int i = 0; i < 200; ++i) {
          w.run_for(50ms);
          w.crash(process);
        }
        check_promises(w);
        CHECK(count_of(w, "start " + name) == 4);
        CHECK(count_of(w, "escalate " + name) == 1);
      },
      /*stride=*/25);
}

TEST_CASE("a draining root stops its children in reverse order, even if some hang") {
  for_seeds(
      [](std::uint64_t seed) {
        world w(supervised_options(seed));
        w.run_for(1s);
        const auto all = all_processes(w);
        if (w.draw(2) == 0)
          w.freeze(all[w.draw(all.size())]);
        if (w.draw(2) == 0)
          w.crash(all[w.draw(all.size())]);
        w.run_for(std::chrono::milliseconds(w.draw(2)));
        std::vector<std::string> expected;
        REQUIRE(w.supervisor());
        caf::anon_send(*w.supervisor(), drain{});
        w.run_for(60s);
        check_promises(w);
        std::vector<std::string> stops;
        for (const auto& line : w.supervised())
          if (line.starts_with("stop "))
            stops.push_back(line);
        std::vector<std::string> order{"stop gateway", "stop head"};
        for (shard_index i = 0; i < w.options().shards(); ++i)
          order.push_back(fmt::format("stop shard-{}", i));
        std::reverse(order.begin(), order.end());
        // A child that is already down is not asked to stop.
        auto at = order.begin();
        for (const auto& s : stops) {
          at = std::find(at, order.end(), s);
          CHECK(at != order.end());
        }
        CHECK(stops.size() + 1 >= order.size());
        CHECK(count_of(w, "stopped") == 1);
        for (auto process : all)
          CHECK_FALSE(w.is_alive(process));
      },
      /*stride=*/10);
}
