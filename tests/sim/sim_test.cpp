// The cluster under seeded faults. After every stretch: tokens contiguous and those of the
// fault-free run, one end each; at rest: every stream has ended, no block is in use. A failing case
// prints its seed: ./check sim --seed N.
#include "tests/sim/options.hpp"
#include "tests/sim/world.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::sim;
using namespace std::chrono_literals;

namespace {

constexpr auto patience =
    180s; // simulated: heartbeat timeouts, back-offs and recomputation all fit in

ids_prompt some_prompt(world& w) {
  ids_prompt ids;
  for (auto n = 1 + w.draw(30); n > 0; --n)
    ids.push_back(static_cast<token_id>(w.draw(259)));
  return ids;
}

void check_promises(world& w) {
  auto broken = w.broken();
  CAPTURE(broken.empty() ? std::string() : broken.front());
  CHECK(broken.empty());
}

void check_rest(world& w) {
  CHECK(w.run_until_ended(patience));
  auto is_idle = [&] {
    const auto& load = w.load();
    return w.stands() == phase::ready && load.running == 0 && load.waiting == 0 &&
           load.blocks_used == 0;
  };
  for (int i = 0; i < 120 && !is_idle(); ++i)
    w.run_for(1s); // a link may still be coming back, and with it the word that a client has left
  CHECK(w.load().running == 0);
  CHECK(w.load().waiting == 0);
  CHECK(w.load().blocks_used == 0);
  CHECK(w.load().swap_blocks_used == 0);
  CHECK(w.stands() == phase::ready);
  check_promises(w);
}

// Runs `scenario` for the chosen seed, or for all of ./check.
void for_seeds(std::uint64_t salt, const std::function<void(std::uint64_t)>& scenario) {
  if (chosen().seed)
    return scenario(*chosen().seed);
  for (std::uint64_t seed = salt; seed < salt + chosen().seeds; ++seed) {
    CAPTURE(seed);
    scenario(seed);
  }
}

// Clients come and go while `fault` strikes now and then; whoever is down comes back.
void live_through(world& w, int strikes, const std::function<void()>& fault) {
  w.run_for(100ms);
  for (int i = 0; i < strikes; ++i) {
    if (w.is_alive(gateway_node) && w.draw(3) != 0)
      w.open(some_prompt(w), static_cast<std::uint32_t>(1 + w.draw(40)),
             w.draw(2) * (1 + w.draw(1000)));
    if (!w.clients().empty() && w.draw(8) == 0)
      w.leave(*w.clients()[w.draw(w.clients().size())]);
    if (w.draw(3) == 0)
      fault();
    w.run_for(std::chrono::milliseconds(1 + w.draw(60)));
  }
  w.network().faults = {};
  w.network().heal_all();
  for (auto node : {head_node, gateway_node, shard_node(0), shard_node(1), shard_node(2)}) {
    w.network().thaw(node);
    if (node.value < shard_node(2).value || w.is_alive(shard_node(2)))
      w.restart(node);
  }
}

} // namespace

TEST_CASE("without faults every stream is the oracle's, whatever the order of events") {
  std::uint64_t swapped = 0;
  for_seeds(1, [&](std::uint64_t seed) {
    world w({.seed = seed,
             .stages = static_cast<stage_index>(1 + seed % 3),
             .swap_blocks = seed % 2 == 0 ? 20u : 0u});
    w.run_for(200ms);
    for (int i = 0; i < 6; ++i)
      w.open(some_prompt(w), static_cast<std::uint32_t>(1 + w.draw(40)),
             w.draw(2) * (1 + w.draw(1000)));
    check_rest(w);
    for (auto& c : w.clients())
      CHECK(c->is_complete());
    swapped += w.load().swapped_in_blocks;
  });
  CHECK((chosen().seed || swapped > 0)); // it has met swap space
}

TEST_CASE("shards that are killed change no token of any stream") {
  for_seeds(1000, [](std::uint64_t seed) {
    world w({.seed = seed, .swap_blocks = seed % 2 == 0 ? 20u : 0u});
    int kills = 0;
    live_through(w, 20, [&] {
      auto victim = shard_node(static_cast<stage_index>(w.draw(2)));
      if (w.is_alive(victim)) {
        w.crash(victim);
        ++kills;
      }
      w.run_for(std::chrono::milliseconds(w.draw(30)));
      w.restart(victim);
    });
    check_rest(w);
    for (auto& c : w.clients())
      if (!c->was_left && c->failure()) {
        // The one error that kills may bring: whoever was alone in flight at two deaths in a row is
        // suspected.
        CAPTURE(c->failure()->message);
        CHECK(c->failure()->code == errc::quarantined);
        CHECK(kills >= 2);
      }
  });
}

TEST_CASE("links that lose, repeat, reorder, corrupt and fall never show in a stream") {
  for_seeds(2000, [](std::uint64_t seed) {
    world w({.seed = seed});
    auto& f = w.network().faults;
    f.loss = static_cast<double>(w.draw(3)) * 0.002;
    f.duplicate = static_cast<double>(w.draw(3)) * 0.002;
    f.reorder = static_cast<double>(w.draw(3)) * 0.002;
    f.corrupt = static_cast<double>(w.draw(3)) * 0.002;
    f.delay_max = std::chrono::milliseconds(1 + w.draw(20));
    const node_id all[] = {head_node, gateway_node, shard_node(0), shard_node(1)};
    live_through(w, 15, [&] {
      auto a = all[w.draw(4)];
      auto b = all[w.draw(4)];
      if (a == b)
        return;
      if (w.draw(2) == 0)
        w.network().disconnect(a, b);
      else
        w.network().partition(a, b);
      w.run_for(std::chrono::milliseconds(w.draw(7000)));
      w.network().heal(a, b);
    });
    check_rest(w);
    for (auto& c : w.clients())
      if (!c->was_left && c->failure()) {
        CAPTURE(c->failure()->message);
        auto code = c->failure()->code;
        bool excusable = code == errc::pipeline_lost || code == errc::quarantined ||
                         code == errc::not_ready || code == errc::overloaded ||
                         code == errc::link_down || code == errc::queue_timeout ||
                         code == errc::ticket_not_found || code == errc::deadline_exceeded;
        CHECK(excusable);
      }
  });
}

TEST_CASE("when head or gateway die every open stream ends once and the cluster serves again") {
  for_seeds(3000, [](std::uint64_t seed) {
    world w({.seed = seed});
    live_through(w, 12, [&] {
      auto victim = w.draw(2) == 0 ? head_node : gateway_node;
      w.crash(victim);
      w.run_for(std::chrono::milliseconds(w.draw(500)));
      w.restart(victim);
      w.run_for(500ms);
    });
    check_rest(w);
    w.open({1, 2, 3}, 5);
    CHECK(w.run_until_ended(patience));
    CHECK(w.clients().back()->is_complete());
  });
}

TEST_CASE("clients of a gateway that died come back to their streams and lose nothing") {
  for_seeds(6000, [](std::uint64_t seed) {
    world w({.seed = seed});
    live_through(w, 16, [&] {
      w.crash(gateway_node);
      w.run_for(std::chrono::milliseconds(w.draw(2) == 0 ? w.draw(500) : w.draw(9000)));
      w.restart(gateway_node);
      w.run_for(500ms);
    });
    check_rest(w);
    for (auto& c : w.clients())
      if (!c->was_left && c->failure()) {
        // Its gateway died between the grant and the submission: it may ask again.
        CAPTURE(c->failure()->message);
        const auto code = c->failure()->code;
        CHECK((code == errc::queue_timeout || code == errc::ticket_not_found));
        CHECK(c->tokens() == 0);
      }
  });
}

TEST_CASE("open streams go on behind the death of the head with the same tokens") {
  for_seeds(7000, [](std::uint64_t seed) {
    world w({.seed = seed, .swap_blocks = seed % 2 == 0 ? 20u : 0u});
    live_through(w, 12, [&] {
      w.crash(head_node);
      w.run_for(std::chrono::milliseconds(w.draw(1500)));
      w.restart(head_node);
      w.run_for(std::chrono::milliseconds(w.draw(1000)));
    });
    check_rest(w);
    for (auto& c : w.clients())
      if (!c->was_left && c->failure()) {
        CAPTURE(c->failure()->message);
        CHECK(c->failure()->code == errc::not_ready); // it asked while no pipeline was up
      }
  });
}

TEST_CASE("a frozen shard that thaws brings nothing of its old life into a stream") {
  for_seeds(4000, [](std::uint64_t seed) {
    world w({.seed = seed});
    live_through(w, 12, [&] {
      auto victim = shard_node(static_cast<stage_index>(w.draw(2)));
      w.network().freeze(victim);
      w.run_for(std::chrono::milliseconds(w.draw(12000)));
      w.network().thaw(victim);
    });
    check_rest(w);
  });
}

TEST_CASE("job tickets are granted only while a slot is free") {
  world w({.seed = 7, .slots = 2, .use_job_ticket = true});
  w.run_for(200ms);
  for (int i = 0; i < 5; ++i)
    w.open(some_prompt(w), 30);
  check_rest(w);
  int refused = 0;
  for (auto& c : w.clients())
    if (c->failure()) {
      CHECK(c->failure()->code == errc::no_job_ticket);
      ++refused;
    }
  CHECK(refused >= 1);
  CHECK(refused <= 3);
}
