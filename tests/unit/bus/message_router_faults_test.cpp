// Seeded faults over the simulated network: messages are lost, duplicated, reordered and corrupted;
// processes are cut off, killed and frozen. An actor never sees a gap or a repeat (sim_process
// checks each message), every loss ends in peer_down, and credit is never exceeded. When the faults
// end, all links come up.
#include "tests/unit/bus/sim_process.hpp"

#include <spdlog/spdlog.h>

#include <cstdlib>

using namespace baton;
using namespace baton::testing;
using namespace std::chrono_literals;
using cluster::sent;

namespace {

constexpr std::uint32_t nodes = 3;
constexpr std::uint64_t window = 32 * 1024;

struct storm {
  sim_network net;
  std::mt19937_64 random;
  std::vector<std::unique_ptr<sim_process>> all{nodes};
  std::vector<std::uint64_t> incarnations = std::vector<std::uint64_t>(nodes, 0);
  std::set<std::size_t> frozen;

  explicit storm(std::uint64_t seed) : net(seed), random(seed * 7919 + 1) {
    for (std::size_t i = 0; i < nodes; ++i)
      start(i);
  }
  std::uint64_t draw(std::uint64_t below) { return random() % below; }

  void start(std::size_t i) {
    cluster::message_router_options o;
    o.link.window_bytes = window;
    const auto number = static_cast<std::uint32_t>(i + 1);
    ++incarnations[i];
    all[i] = std::make_unique<sim_process>(net, process_id{number}, incarnation_id{incarnations[i]},
                                           fmt::format("sim://{}/{}", number, incarnations[i]), o);
    // An incarnation knows the others' addresses, as a child knows its parent's; the others learn
    // its own from its hello.
    for (std::size_t other = 0; other < nodes; ++other)
      if (other != i && all[other])
        all[i]->connect(*all[other]);
  }
  void kill(std::size_t i) {
    net.crash(all[i]->process);
    all[i].reset();
    net.thaw(process_id{static_cast<std::uint32_t>(i + 1)});
    frozen.erase(i);
    start(i);
  }

  void act() {
    const auto i = static_cast<std::size_t>(draw(nodes));
    const auto j = (i + 1 + static_cast<std::size_t>(draw(nodes - 1))) % nodes;
    const auto a = all[i]->process;
    const auto b = all[j]->process;
    switch (draw(400)) {
    case 0:
      kill(i);
      return;
    case 1:
      net.disconnect(a, b);
      return;
    case 2:
      net.partition(a, b);
      return;
    case 3:
      net.partition(a, b);
      net.partition(b, a);
      return;
    case 4:
      net.freeze(a);
      frozen.insert(i);
      return;
    case 5:
    case 6:
      net.heal_all();
      return;
    case 7:
    case 8:
      calm_freeze();
      return;
    default:
      break;
    }
    if (frozen.contains(i))
      return;
    if (draw(2) == 0)
      static_cast<void>(all[i]->send_control(b));
    else if (draw(4) != 0)
      static_cast<void>(all[i]->send_data(b, 1 + draw(2000)));
    if (auto& held = all[i]->peers[b].held; !held.empty() && draw(2) == 0)
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(draw(held.size())));
  }
  void calm_freeze() {
    for (auto i : frozen)
      net.thaw(all[i]->process);
    frozen.clear();
  }
  void check_credit() {
    for (auto& p : all)
      for (auto& [from, s] : p->peers)
        CHECK(p->held_bytes(from) <= window);
  }
  void blow(int turns) {
    for (int turn = 0; turn < turns; ++turn) {
      for (int k = 0; k < 5; ++k)
        act();
      net.run_for(std::chrono::milliseconds(draw(20)));
      for (std::size_t i = 0; i < nodes; ++i)
        if (!frozen.contains(i))
          all[i]->tick();
      check_credit();
    }
  }
  void calm() {
    net.faults = {};
    net.heal_all();
    calm_freeze();
    run_all(net, all, 30'000ms);
  }
};

void check_after(storm& s) {
  for (auto& p : s.all)
    for (auto& q : s.all) {
      if (p == q)
        continue;
      REQUIRE(p->links->is_up(q->process));
      auto& out = p->peers[q->process];
      auto& in = q->peers[p->process];
      // All messages sent since both came up have arrived: a loss would have ended in peer_down.
      REQUIRE(out.is_up);
      REQUIRE(in.is_up);
      if (!out.sent.empty()) {
        REQUIRE_FALSE(in.received.empty());
        CHECK(out.sent.back() == in.received.back());
        CHECK(out.sent == in.received);
      }
      q->peers[p->process].held.clear();
    }
  run_all(s.net, s.all, 1500ms);
  for (auto& p : s.all)
    for (auto& standing : p->links->peers())
      CHECK(standing.outstanding_bytes == 0);
}

// More seeds on demand: BATON_BUS_SEEDS=1000.
std::uint64_t seeds() {
  const char* more = std::getenv("BATON_BUS_SEEDS");
  return more ? std::strtoull(more, nullptr, 10) : 40;
}

} // namespace

TEST_CASE("under faults no actor sees a gap or a repeat, and all links come up afterwards") {
  spdlog::set_level(spdlog::level::off);
  std::uint64_t delivered = 0;
  std::uint64_t downs = 0;
  for (std::uint64_t seed = 1; seed <= seeds(); ++seed) {
    CAPTURE(seed);
    storm s(seed);
    // Some seeds with crashes and cuts only, as in a real network; some with all faults.
    if (seed % 2 == 0)
      s.net.faults = {.loss = 0.002,
                      .duplicate = 0.002,
                      .reorder = 0.002,
                      .corrupt = 0.002,
                      .disconnect = 0.002,
                      .delay_max = 10ms};
    s.blow(600);
    s.calm();
    check_after(s);
    for (auto& p : s.all) {
      delivered += p->links->counters().delivered;
      for (auto& [n, session] : p->peers)
        downs += session.downs;
    }
  }
  CHECK(delivered > seeds() * 200);
  CHECK(downs > seeds());
}

TEST_CASE("the same seed gives the same run") {
  auto run = [] {
    storm s(99);
    s.net.faults = {.loss = 0.01, .duplicate = 0.01, .delay_max = 5ms};
    s.blow(200);
    auto c = s.net.counts();
    return std::vector<std::uint64_t>{c.delivered, c.lost, c.duplicated, c.disconnects};
  };
  CHECK(run() == run());
}
