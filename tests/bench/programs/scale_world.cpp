// One of N machines vanishes in the simulation. Measures in simulated time how long the head needs
// to notice, and how long until the next epoch opens. The whole cluster is there: links,
// supervisor, scheduler, stages.
#include "tests/bench/programs/scale.hpp"
#include "tests/sim/world.hpp"

#include <fmt/format.h>

namespace baton::bench {
namespace {

using namespace std::chrono_literals;

struct world_figures {
  double came_up = 0; // ms, from the root's start to the first epoch
  double noticed = 0; // ms, from the fault to the end of the epoch
  double open = 0;    // ms, from the fault to the next one
  double bytes = 0;   // per node, over all processes
};

bool is_open(const sim::world& w) {
  const auto* s = w.scheduler();
  return s && s->core->is_open();
}

// Simulated milliseconds until the state is `wanted`. Clocks tick in steps of 20 ms and more only.
double until(sim::world& w, bool wanted, std::chrono::milliseconds grain) {
  constexpr auto patience = 60s;
  const auto begin = w.now();
  while (is_open(w) != wanted && w.now() - begin < patience)
    w.run_for(grain);
  return std::chrono::duration<double, std::milli>(w.now() - begin).count();
}

world_figures lose_one(std::uint32_t nodes, bool dies, std::uint64_t seed) {
  world_figures f;
  const auto before = bytes_in_use();
  sim::world_options options;
  options.seed = seed;
  options.stages = nodes;
  options.supervised = true;
  sim::world w(options);
  const auto grain = dies ? 1ms : 20ms; // links report a death at once
  f.came_up = until(w, true, grain);
  w.run_for(500ms); // lets heartbeats circulate
  f.bytes = static_cast<double>(bytes_in_use() - before) / nodes;
  const auto victim = sim::shard_process(nodes / 2);
  if (dies)
    w.crash(victim);
  else
    w.freeze(victim);
  f.noticed = until(w, false, grain);
  f.open = f.noticed + until(w, true, grain);
  return f;
}

} // namespace

void measure_world(const scale_options& o) {
  for (const std::uint32_t nodes : {2u, 10u, 100u, 1000u}) {
    if (o.quick && nodes > 10)
      return;
    const int rounds = nodes < 1000 ? o.rounds : 1; // each takes minutes
    for (const bool dies : {true, false}) {
      std::vector<double> came_up, noticed, open, bytes;
      for (int round = 0; round < rounds; ++round) {
        const auto f = lose_one(nodes, dies, static_cast<std::uint64_t>(round) + 1);
        came_up.push_back(f.came_up);
        noticed.push_back(f.noticed);
        open.push_back(f.open);
        bytes.push_back(f.bytes);
      }
      const auto row = [&](std::string_view what, const std::vector<double>& values,
                           std::string_view unit) {
        report(o, fmt::format("world.{}.{}", nodes, what), values, unit);
      };
      row(dies ? "killed.noticed" : "silent.noticed", noticed, "ms");
      row(dies ? "killed.open" : "silent.open", open, "ms");
      if (!dies)
        continue;
      row("up", came_up, "ms");
      row("bytes", bytes, "B/node");
    }
  }
}

} // namespace baton::bench
