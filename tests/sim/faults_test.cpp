// The cluster under seeded faults. The promises are checked after every step; at rest every stream
// has ended and nothing is held. A failing case prints its seed: ./check sim --seed N.
#include "tests/sim/scenario.hpp"

using namespace baton;
using namespace baton::sim;

TEST_CASE("without faults every stream equals the oracle's, whatever the order of events") {
  std::uint64_t swapped = 0, guessed = 0, waited = 0;
  for_seeds([&](std::uint64_t seed) {
    world w(drawn_options(seed));
    w.run_for(200ms);
    for (int i = 0; i < 6; ++i)
      w.open(some_plan(w));
    check_rest(w);
    check_failures(w, {});
    CHECK(w.load().epochs == 1);
    for (const auto& [process, l] : w.running()) {
      const auto counted = l.links->counters();
      CHECK(counted.lost == 0);
      CHECK(counted.bad == 0);
      CHECK(counted.unknown_actor == 0);
      waited += counted.back_pressure;
    }
    swapped += w.load().swapped_in_blocks;
    guessed += w.load().spec_decode_accepted_tokens;
  });
  if (!chosen().seed && chosen().seeds >= 400) { // the runs have covered what they are to test
    CHECK(swapped > 0);
    CHECK(guessed > 0);
    CHECK(waited > 0);
  }
}

TEST_CASE("shards that are killed or start late change no token of any stream") {
  for_seeds([](std::uint64_t seed) {
    auto o = drawn_options(seed);
    if (seed % 4 == 0)
      o.late.insert(shard_process(0));
    world w(o);
    int kills = 0;
    live_through(w, 20, [&] {
      auto victim = some_shard(w);
      if (w.is_alive(victim)) {
        w.crash(victim);
        ++kills;
      }
      w.run_for(std::chrono::milliseconds(w.draw(30)));
      w.restart(victim);
    });
    check_rest(w);
    // The only error that kills may cause: a request alone in flight at two successive deaths is
    // suspected.
    std::set<errc> excusable;
    if (kills >= 2)
      excusable.insert(errc::quarantined);
    if (seed % 4 == 0)
      excusable.insert(errc::not_ready);
    check_failures(w, excusable);
  });
}

TEST_CASE("when one of a hundred stages is killed, streams only pause") {
  std::uint64_t opened_again = 0;
  for_seeds(
      [&](std::uint64_t seed) {
        auto o = drawn_options(seed);
        o.stages = 100;
        o.width = 1;
        world w(o);
        live_through(w, 4, [&] {
          const auto victim = some_shard(w);
          w.crash(victim);
          w.run_for(std::chrono::milliseconds(w.draw(30)));
          w.restart(victim);
        });
        check_rest(w);
        check_failures(w, {errc::quarantined});
        opened_again += w.load().epochs - 1;
      },
      /*stride=*/40);
  if (!chosen().seed && chosen().seeds >= 400)
    CHECK(opened_again > 0);
}

TEST_CASE("links that lose, repeat, reorder, corrupt and fall never change a stream") {
  for_seeds([](std::uint64_t seed) {
    world w(drawn_options(seed));
    auto& f = w.network().faults;
    f.loss = static_cast<double>(w.draw(3)) * 0.002;
    f.duplicate = static_cast<double>(w.draw(3)) * 0.002;
    f.reorder = static_cast<double>(w.draw(3)) * 0.002;
    f.corrupt = static_cast<double>(w.draw(3)) * 0.002;
    f.disconnect = static_cast<double>(w.draw(3)) * 0.001;
    f.delay_max = std::chrono::milliseconds(1 + w.draw(20));
    const auto all = all_processes(w);
    live_through(w, 15, [&] {
      auto a = all[w.draw(all.size())];
      auto b = all[w.draw(all.size())];
      if (a == b)
        return;
      if (w.draw(2) == 0)
        w.network().disconnect(a, b);
      else
        w.network().partition(a, b); // in one direction
      if (w.draw(3) == 0)
        w.network().partition(b, a);
      w.run_for(std::chrono::milliseconds(w.draw(7000)));
      w.network().heal_all();
    });
    check_rest(w);
    check_failures(w, after_losses);
  });
}

TEST_CASE("when head or gateway dies, each open stream ends once and the cluster recovers") {
  for_seeds([](std::uint64_t seed) {
    world w(drawn_options(seed));
    live_through(w, 12, [&] {
      auto victim = w.draw(2) == 0 ? head_process : gateway_process;
      w.crash(victim);
      w.run_for(std::chrono::milliseconds(w.draw(500)));
      w.restart(victim);
      w.run_for(500ms);
    });
    check_rest(w);
    w.open({.input = {1, 2, 3}, .max_tokens = 5});
    CHECK(w.run_until_ended(patience));
    CHECK(w.clients().back()->is_complete());
  });
}

TEST_CASE("clients of a dead gateway resume their streams and lose nothing") {
  for_seeds([](std::uint64_t seed) {
    world w(drawn_options(seed));
    live_through(w, 16, [&] {
      w.crash(gateway_process);
      w.run_for(std::chrono::milliseconds(w.draw(2) == 0 ? w.draw(500) : w.draw(9000)));
      w.restart(gateway_process);
      w.run_for(500ms);
    });
    check_rest(w);
    // Its gateway died between the grant and the submission: no text had arrived, so it may repeat
    // the request.
    check_failures(w, {errc::queue_timeout, errc::ticket_not_found});
    for (auto& c : w.clients())
      CHECK((c->was_left || !c->failure() || c->failure()->code == errc::slow_reader ||
             c->tokens() == 0));
  });
}

TEST_CASE("a client that has resumed keeps its stream when the head is lost as well") {
  for_seeds([](std::uint64_t seed) {
    world w(drawn_options(seed));
    live_through(w, 12, [&] {
      w.crash(gateway_process);
      w.run_for(std::chrono::milliseconds(w.draw(500)));
      w.restart(gateway_process);
      w.run_for(6s); // longer than any pause between two greetings: all clients have resumed
      w.crash(head_process);
      w.run_for(std::chrono::milliseconds(w.draw(500)));
      w.restart(head_process);
      w.run_for(6s);
    });
    check_rest(w);
    check_failures(w, {errc::not_ready, errc::queue_timeout, errc::ticket_not_found});
    // Only the head keeps a finished unread stream: slow readers may have lost both.
    for (auto& c : w.clients())
      CHECK((c->was_left || !c->failure() || c->plan().reads_slowly || c->tokens() == 0));
  });
}

// Links so slow that streams are halfway when the second fault occurs.
TEST_CASE("a stream that was resumed survives the immediate loss of the head") {
  int outlived = 0;
  for_seeds([&](std::uint64_t seed) {
    auto o = drawn_options(seed);
    o.window_bytes = 64ull << 20; // the request is known at once, before any text
    world w(o);
    w.network().faults.delay_max = 40ms;
    w.run_for(3s);
    for (int i = 0; i < 4; ++i)
      w.open(some_plan(w));
    w.run_for(std::chrono::milliseconds(100 + w.draw(700)));
    w.crash(gateway_process);
    const auto away = w.draw(2) == 0 ? 10 : 500;
    w.run_for(std::chrono::milliseconds(w.draw(away)));
    w.restart(gateway_process);
    w.run_for(std::chrono::milliseconds(50 + w.draw(1500)));
    const auto& core = *w.scheduler()->core;
    std::set<const client*> back;
    for (auto& c : w.clients())
      if (c->is_back() && !c->has_ended() && core.is_known(c->ticket()) &&
          !core.is_reserved(c->ticket())) // otherwise it was granted and never submitted
        back.insert(c.get());
    w.crash(head_process);
    w.run_for(std::chrono::milliseconds(w.draw(500)));
    w.restart(head_process);
    w.network().faults = {};
    w.run_for(6s);
    check_rest(w);
    for (const auto* c : back) {
      const auto number = c->number();
      const auto failure = c->failure() ? c->failure()->message : std::string();
      const auto tokens = c->tokens();
      CAPTURE(number);
      CAPTURE(failure);
      CAPTURE(tokens);
      CHECK((c->is_complete() || c->plan().reads_slowly));
      outlived += c->is_complete();
    }
  });
  if (!chosen().seed && chosen().seeds >= 400)
    CHECK(outlived > 0);
}

TEST_CASE("open streams continue with the same tokens after the death of the head") {
  for_seeds([](std::uint64_t seed) {
    world w(drawn_options(seed));
    live_through(w, 12, [&] {
      w.crash(head_process);
      w.run_for(std::chrono::milliseconds(w.draw(1500)));
      w.restart(head_process);
      w.run_for(std::chrono::milliseconds(w.draw(1000)));
    });
    check_rest(w);
    check_failures(w, {errc::not_ready}); // it was sent while no pipeline was up
  });
}

TEST_CASE(
    "a process that was stopped for a while adds nothing of its old incarnation to a stream") {
  for_seeds([](std::uint64_t seed) {
    world w(drawn_options(seed));
    const auto all = all_processes(w);
    live_through(w, 12, [&] {
      auto victim = w.draw(3) == 0 ? all[w.draw(all.size())] : some_shard(w);
      w.freeze(victim);
      w.run_for(std::chrono::milliseconds(w.draw(12000)));
      w.release(victim);
    });
    check_rest(w);
    check_failures(w, after_losses);
  });
}

TEST_CASE("a hanging step closes its epoch, and its late result is ignored") {
  for_seeds(
      [](std::uint64_t seed) {
        world w(drawn_options(seed));
        w.run_for(200ms);
        for (int i = 0; i < 4; ++i)
          w.open(some_plan(w));
        w.run_for(std::chrono::milliseconds(w.draw(40)));
        // Only the first rank: it detects the loss of the others within seconds.
        const auto victim =
            static_cast<shard_index>(w.draw(w.options().stages)) * w.options().width;
        w.stick(victim);
        w.run_for(actors::step_timeout + std::chrono::milliseconds(1 + w.draw(20'000)));
        w.release(shard_process(victim));
        check_rest(w);
        check_failures(w, {errc::queue_timeout});
      },
      /*stride=*/10);
}

TEST_CASE("under all faults streams are correct and end once, and nothing leaks") {
  for_seeds([](std::uint64_t seed) {
    auto o = drawn_options(seed);
    o.queue_max = 3;
    const auto all_of = 2 + o.shards();
    if (seed % 3 == 0)
      o.late.insert(seed % 2 == 0 ? head_process : shard_process(o.shards() - 1));
    world w(o);
    const auto all = all_processes(w);
    auto& f = w.network().faults;
    f.loss = f.duplicate = f.reorder = f.corrupt = 0.0005;
    f.disconnect = 0.0003;
    const auto worst = w.draw(4);
    w.on_step = [&w, worst](shard_index, const micro_batch&) {
      return w.draw(150) == 0 ? static_cast<step_fault>(w.draw(1 + worst)) : step_fault::none;
    };
    live_through(w, 25, [&] {
      const auto a = all[w.draw(all_of)], b = all[w.draw(all_of)];
      switch (w.draw(5)) {
      case 0:
        w.crash(a);
        break;
      case 1:
        w.freeze(a);
        break;
      case 2:
        if (a != b)
          w.network().partition(a, b);
        break;
      case 3:
        w.network().disconnect(a, b);
        break;
      default:
        if (auto victim = some_shard(w); w.is_alive(victim))
          w.stick(victim.value - shard_process(0).value);
      }
      w.run_for(std::chrono::milliseconds(w.draw(w.draw(4) == 0 ? 5000 : 200)));
      w.release(a);
      w.network().heal_all();
      for (shard_index i = 0; i < w.options().shards(); ++i)
        w.release(shard_process(i));
      if (w.draw(2) == 0)
        w.restart(a);
    });
    check_rest(w);
    auto excusable = after_losses;
    excusable.insert(errc::internal); // a single failed step
    check_failures(w, excusable);
  });
}

TEST_CASE("the same seed gives the same run") {
  for_seeds(
      [](std::uint64_t seed) {
        auto run = [&] {
          world w(drawn_options(seed));
          w.network().faults.loss = 0.001;
          live_through(w, 10, [&] {
            const auto victim = some_shard(w);
            w.crash(victim);
            w.run_for(30ms);
            w.restart(victim);
          });
          w.run_for(1s);
          return w.trace();
        };
        const auto first = run();
        CHECK(first == run());
      },
      /*stride=*/25);
}
