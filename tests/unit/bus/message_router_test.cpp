// The message router over a simulated network without faults, or with one fault at a time.
#include "tests/unit/bus/bus_processes.hpp"
#include "tests/unit/bus/sim_process.hpp"

using namespace baton;
using namespace baton::testing;
using namespace std::chrono_literals;
using cluster::link_state;
using cluster::message_router_options;
using cluster::sent;

namespace {

struct pair {
  sim_network net{7};
  std::vector<std::unique_ptr<sim_process>> all;

  explicit pair(message_router_options o = {}) {
    all.push_back(
        std::make_unique<sim_process>(net, head_process, incarnation_id{1}, "sim://head", o));
    all.push_back(
        std::make_unique<sim_process>(net, shard_process, incarnation_id{1}, "sim://shard", o));
  }
  sim_process& h() { return *all[0]; }
  sim_process& s() { return *all[1]; }
  void run(std::chrono::milliseconds t) { run_all(net, all, t); }
  void link() {
    s().connect(h());
    run(100ms);
    REQUIRE(h().links->is_up(shard_process));
    REQUIRE(s().links->is_up(head_process));
  }
};

message_router_options small_window(std::uint64_t bytes) {
  message_router_options o;
  o.link.window_bytes = bytes;
  return o;
}

} // namespace

TEST_CASE("one side knowing the other's address is enough for both to come up within a few hops") {
  pair p;
  p.s().connect(p.h());
  p.net.run_for(15ms); // without a tick
  CHECK(p.h().links->is_up(shard_process));
  CHECK(p.s().links->is_up(head_process));
  CHECK(p.h().peers[shard_process].ups == 1);
  CHECK(p.h().links->peers().at(0).name == "node-2");
}

TEST_CASE("both sides connecting at once come up once") {
  pair p;
  p.s().connect(p.h());
  p.h().connect(p.s());
  p.run(2000ms);
  CHECK(p.h().peers[shard_process].ups == 1);
  CHECK(p.s().peers[head_process].ups == 1);
  CHECK(p.h().peers[shard_process].downs == 0);
}

TEST_CASE("messages arrive in order, with source, correlation and a lease on data") {
  pair p;
  p.link();
  std::vector<envelope> seen;
  p.h().links->publish(actor_id{9}, [&](const envelope& e, message&&) { seen.push_back(e); });
  CHECK(p.s().links->send(head_process, actor_id{9}, message(cancel{}), actor_id{4}, 77) ==
        sent::ok);
  for (int i = 0; i < 50; ++i) {
    CHECK(p.s().send_control(head_process) == sent::ok);
    CHECK(p.s().send_data(head_process, 64) == sent::ok);
  }
  p.run(100ms);
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].source_actor == actor_id{4});
  CHECK(seen[0].correlation == 77);
  CHECK(p.h().peers[shard_process].received.size() == 50);
  CHECK(p.h().peers[shard_process].received_data.size() == 50);
}

TEST_CASE(
    "a message to an unknown process, a peer that is down or an unpublished actor is reported") {
  pair p;
  CHECK(p.s().send_control(process_id{9}) == sent::unknown_peer);
  CHECK(p.s().links->connect(head_process, "sim://nowhere"));
  CHECK(p.s().send_control(head_process) == sent::down);
  p.s().post_data(head_process, 1);
  CHECK(p.s().links->counters().dropped == 1);
  p.s().links->disconnect(head_process);
  p.link();
  CHECK(p.s().links->send(head_process, actor_id{99}, message(cancel{})) == sent::ok);
  p.run(50ms);
  CHECK(p.h().links->counters().unknown_actor == 1);
  CHECK(p.h().links->is_up(shard_process));
  p.h().links->withdraw(control_box);
  CHECK(p.s().send_control(head_process) == sent::ok);
  p.run(50ms);
  CHECK(p.h().links->counters().unknown_actor == 2);
}

TEST_CASE("a process is no peer of itself") {
  pair p;
  CHECK_FALSE(p.s().links->connect(shard_process, "sim://shard"));
  CHECK_FALSE(p.s().links->connect(process_id{}, "sim://shard"));
}

TEST_CASE("a silent peer is down, and it comes up again when it sends") {
  pair p;
  p.link();
  p.net.freeze(shard_process);
  for (int i = 0; i < 300; ++i) {
    p.net.run_for(20ms);
    p.h().tick();
  }
  CHECK(p.h().peers[shard_process].downs == 1);
  CHECK_FALSE(p.h().links->is_up(shard_process));
  p.net.thaw(shard_process);
  p.run(6000ms);
  CHECK(p.h().links->is_up(shard_process));
  CHECK(p.s().links->is_up(head_process));
  CHECK(p.s().peers[head_process].downs == 1);
}

TEST_CASE("idle links stay up by heartbeats alone") {
  pair p;
  p.link();
  constexpr auto idle = 60'000ms;
  p.run(idle);
  CHECK(p.h().peers[shard_process].downs == 0);
  CHECK(p.s().peers[head_process].downs == 0);
  const auto beats = 2 * idle / cluster::link_options{}.heartbeat_interval; // of both sides
  CHECK(p.net.counts().delivered < static_cast<std::uint64_t>(beats) * 5 / 4);
}

TEST_CASE("a fallen connection brings both sides down and up again without a tick") {
  pair p;
  p.link();
  p.net.disconnect(shard_process, head_process);
  p.net.run_for(50ms);
  CHECK(p.s().peers[head_process].downs == 1);
  CHECK(p.h().peers[shard_process].downs == 1);
  CHECK(p.s().links->is_up(head_process));
  CHECK(p.h().links->is_up(shard_process));
}

TEST_CASE("the next incarnation of a peer replaces the old one, whose frames are refused") {
  pair p;
  p.link();
  bool hangs = true;
  SUBCASE("after a crash that was detected") {
    hangs = false;
    p.net.crash(shard_process);
    p.run(20ms);
    CHECK(p.h().peers[shard_process].downs == 1);
  }
  SUBCASE("while the old one still hangs") {
    p.net.freeze(shard_process);
  }
  auto old = std::move(p.all[1]);
  p.net.thaw(shard_process);
  p.all[1] =
      std::make_unique<sim_process>(p.net, shard_process, incarnation_id{2}, "sim://shard-2");
  p.s().connect(p.h());
  p.run(100ms);
  CHECK(p.h().peers[shard_process].downs == 1);
  CHECK(p.h().peers[shard_process].incarnation == incarnation_id{2});
  CHECK(p.h().links->is_up(shard_process));
  CHECK(p.s().links->is_up(head_process));
  const auto stale = p.h().links->counters().stale;
  if (hangs) { // and now continues to send
    CHECK(old->send_control(head_process) == sent::ok);
    p.run(50ms);
    CHECK(p.h().links->counters().stale > stale);
  }
  CHECK(p.h().peers[shard_process].received.empty());
  CHECK(p.s().send_control(head_process) == sent::ok);
  p.run(50ms);
  CHECK(p.h().peers[shard_process].received.size() == 1);
}

TEST_CASE("data stops at the window, control does not, and released data makes room") {
  pair p(small_window(64 * 1024));
  p.link();
  int sent_data = 0;
  while (p.s().send_data(head_process, 1024) == sent::ok)
    ++sent_data;
  CHECK(sent_data == 15); // 16 x (4 KiB and its frame) is above 64 KiB
  CHECK(p.s().send_control(head_process) == sent::ok);
  p.run(50ms);
  CHECK(p.h().peers[shard_process].received.size() == 1);
  CHECK(p.s().send_data(head_process, 1024) == sent::back_pressure);
  p.h().peers[shard_process].held.resize(8);
  p.run(50ms);
  CHECK(p.s().send_data(head_process, 1024) == sent::ok);
  p.h().peers[shard_process].held.clear();
  p.run(1100ms);
  CHECK(p.s().links->peers().at(0).outstanding_bytes < 5000);
  SUBCASE("a message larger than the window is sent alone") {
    p.h().peers[shard_process].held.clear();
    p.run(1100ms);
    CHECK(p.s().send_data(head_process, 100'000) == sent::ok);
    CHECK(p.s().send_data(head_process, 1) == sent::back_pressure);
    p.run(50ms);
    p.h().peers[shard_process].held.clear();
    p.run(50ms);
    CHECK(p.s().send_data(head_process, 100'000) == sent::ok);
  }
}

TEST_CASE("messages without a lease are credited once they are delivered") {
  pair p(small_window(4096));
  p.link();
  int taken = 0;
  p.h().links->publish(actor_id{9}, [&](const envelope&, message&&) { ++taken; });
  for (int i = 0; i < 1000; ++i) {
    tokens t;
    t.index = static_cast<std::uint32_t>(i);
    p.s().links->post(head_process, actor_id{9}, message(t));
  }
  p.run(2000ms);
  CHECK(taken == 1000);
  CHECK(p.s().links->counters().back_pressure > 0);
}

TEST_CASE("posted messages wait in order for credit, and control passes them") {
  pair p(small_window(16 * 1024));
  p.link();
  for (int i = 0; i < 100; ++i)
    p.s().post_data(head_process, 1024);
  CHECK(p.s().links->peers().at(0).waiting_count == 97);
  CHECK(p.s().send_control(head_process) == sent::ok);
  p.run(40ms);
  CHECK(p.h().peers[shard_process].received.size() == 1);
  for (int i = 0; i < 200 && p.h().peers[shard_process].received_data.size() < 100; ++i) {
    CHECK(p.h().held_bytes(shard_process) <= 16 * 1024);
    p.h().peers[shard_process].held.clear();
    p.run(20ms);
  }
  CHECK(p.h().peers[shard_process].received_data.size() == 100);
}

TEST_CASE("too many waiting messages lose the link rather than a message") {
  auto o = small_window(1024);
  o.waiting_bytes_max = 64 * 1024;
  pair p(o);
  p.link();
  for (int i = 0; i < 100; ++i)
    p.s().post_data(head_process, 1024);
  CHECK(p.s().peers[head_process].downs == 1);
  p.run(1000ms);
  CHECK(p.s().links->is_up(head_process));
  CHECK(p.s().links->peers().at(0).waiting_count == 0);
}

TEST_CASE("a full route is back-pressure for send, and a short wait for post") {
  pair p;
  p.link();
  p.net.messages_queued_max = 10;
  int ok = 0;
  while (p.s().send_control(head_process) == sent::ok)
    ++ok;
  CHECK(ok <= 10);
  for (int i = 0; i < 30; ++i)
    p.s().post_data(head_process, 1);
  p.run(200ms);
  CHECK(p.h().peers[shard_process].received_data.size() == 30);
  CHECK(p.h().peers[shard_process].downs == 0);
}

TEST_CASE("a peer that is not admitted gets the reason and stays down on both sides") {
  message_router_options picky;
  picky.admit = [](const hello& h) -> result<void> {
    if (h.process == shard_process)
      return fail(errc::version_mismatch, "another build");
    return {};
  };
  sim_network net(3);
  std::vector<std::unique_ptr<sim_process>> all;
  all.push_back(
      std::make_unique<sim_process>(net, head_process, incarnation_id{1}, "sim://head", picky));
  all.push_back(
      std::make_unique<sim_process>(net, shard_process, incarnation_id{1}, "sim://shard"));
  all[1]->connect(*all[0]);
  run_all(net, all, 3000ms);
  CHECK_FALSE(all[0]->links->is_up(shard_process));
  CHECK_FALSE(all[1]->links->is_up(head_process));
  CHECK(all[0]->links->counters().refused > 0);
  CHECK(all[1]->links->peers().at(0).reason == "another build");
}

TEST_CASE("frames that do not verify are counted, and the valid peer stays up") {
  pair p;
  p.link();
  auto stranger = p.net.make_bus(process_id{66});
  stranger->start({[](frames&&) {}, [](process_id) {}, [](process_id, std::string) {}});
  REQUIRE(stranger->connect(head_process, "sim://head"));
  p.run(20ms);
  auto bytes = std::make_shared<std::vector<std::byte>>(512, std::byte{0x5a});
  frames garbage;
  garbage.head = {bytes, bytes->data(), 200};
  garbage.body = {bytes, bytes->data(), 512};
  for (int i = 0; i < 20; ++i)
    CHECK(stranger->send(head_process, garbage) == sent::ok);
  // Frames that verify, but are forged: wrong numbers, incarnations and targets, false hellos.
  envelope e;
  e.source = shard_process;
  e.source_incarnation = incarnation_id{1};
  e.target = head_process;
  e.target_incarnation = incarnation_id{5};
  CHECK(stranger->send(head_process, encode(e, message(sampled{}))) == sent::ok);
  e.target = process_id{44};
  CHECK(stranger->send(head_process, encode(e, message(sampled{}))) == sent::ok);
  e.source = process_id{77};
  e.target = head_process;
  CHECK(stranger->send(head_process, encode(e, message(sampled{}))) == sent::ok);
  e.source = head_process;
  CHECK(stranger->send(head_process, encode(e, message(hello{}))) == sent::ok);
  p.run(100ms);
  const auto c = p.h().links->counters();
  CHECK(c.bad >= 22);
  CHECK(c.stale == 1);
  CHECK(c.unknown_peer == 1);
  CHECK(p.h().links->is_up(shard_process));
  CHECK(p.s().send_control(head_process) == sent::ok);
  p.run(50ms);
  CHECK(p.h().peers[shard_process].received.size() == 1);
}

TEST_CASE("a peer whose messages are refused whenever it is up costs few greetings") {
  pair p;
  bool is_broken = true;
  auto& broken = *p.s().links;
  broken.on_peer_up([&](const hello& h) {
    if (is_broken) // the codec refuses a negative time
      CHECK(broken.send(h.process, control_box, message(drain{-1ms})) == sent::ok);
  });
  broken.on_peer_down([](process_id, incarnation_id, const std::string&) {});
  p.s().connect(p.h());
  p.run(60'000ms);
  // Nine at once, then after 0.5, 1, 2, 4 and each 5 s.
  CHECK(p.h().peers[shard_process].downs > 13);
  CHECK(p.h().peers[shard_process].downs <= 9 + 4 + 11);
  is_broken = false;
  p.run(6000ms);
  CHECK(p.h().links->is_up(shard_process));
  CHECK(broken.is_up(head_process));
}

TEST_CASE("unknown peers cannot make the router keep more links than its limit") {
  message_router_options o;
  o.peers_max = 5;
  sim_network net(3);
  sim_process h(net, head_process, incarnation_id{1}, "sim://head", o);
  auto stranger = net.make_bus(process_id{66});
  stranger->start({[](frames&&) {}, [](process_id) {}, [](process_id, std::string) {}});
  REQUIRE(stranger->connect(head_process, "sim://head"));
  net.run_for(20ms);
  for (std::uint32_t i = 100; i < 150; ++i) {
    hello lie;
    lie.process = process_id{i};
    lie.incarnation = incarnation_id{1};
    lie.endpoint = "sim://nowhere";
    envelope e;
    e.source = lie.process;
    e.source_incarnation = lie.incarnation;
    e.target = head_process;
    e.correlation = e.sequence = 1;
    CHECK(stranger->send(head_process, encode(e, message(lie))) == sent::ok);
  }
  net.run_for(100ms);
  CHECK(h.links->peers().size() == 5);
}

TEST_CASE("a client that has left is forgotten, a shard is waited for") {
  for (const auto as : {role::client, role::shard}) {
    sim_network net(7);
    sim_process h(net, head_process, incarnation_id{1}, "sim://head");
    for (std::uint64_t incarnation = 1; incarnation <= 3; ++incarnation) {
      std::vector<std::unique_ptr<sim_process>> all;
      all.push_back(std::make_unique<sim_process>(net, shard_process, incarnation_id{incarnation},
                                                  fmt::format("sim://{}", incarnation),
                                                  message_router_options{}, as));
      all[0]->connect(h);
      const auto run = [&](std::chrono::milliseconds t) {
        for (std::chrono::milliseconds done{0}; done < t; done += 20ms) {
          run_all(net, all, 20ms);
          h.tick();
        }
      };
      run(100ms);
      REQUIRE(h.links->is_up(shard_process));
      CHECK(h.peers[shard_process].ups == incarnation);
      run(5000ms); // it sends only heartbeats, and stays
      REQUIRE(h.links->is_up(shard_process));
      all.clear();
      run(3000ms);
      CHECK(h.links->peers().size() == (as == role::client ? 0 : 1));
      CHECK(h.peers[shard_process].downs == incarnation);
    }
  }
}

TEST_CASE("a lease may outlive its router") {
  std::vector<std::pair<micro_batch, std::size_t>> kept;
  {
    pair p;
    p.link();
    CHECK(p.s().send_data(head_process, 16) == sent::ok);
    p.run(50ms);
    kept = std::move(p.h().peers[shard_process].held);
  }
  REQUIRE(kept.size() == 1);
  CHECK(kept[0].first.lease.use_count() == 1);
  kept.clear();
}

TEST_CASE("callbacks may call the router, and a forwarded message keeps its lease until sent") {
  sim_network net(11);
  std::vector<std::unique_ptr<sim_process>> all;
  for (std::uint32_t n = 1; n <= 3; ++n)
    all.push_back(std::make_unique<sim_process>(net, process_id{n}, incarnation_id{1}, "",
                                                small_window(8 * 1024)));
  all[0]->connect(*all[1]);
  all[1]->connect(*all[2]);
  run_all(net, all, 100ms);
  auto& middle = *all[1]->links;
  middle.publish(data_box, [&](const envelope&, message&& m) {
    middle.post(process_id{3}, data_box, std::move(m));
  });
  for (int i = 0; i < 30; ++i)
    all[0]->post_data(process_id{2}, 512);
  for (int i = 0; i < 400 && all[2]->peers[process_id{2}].received_data.size() < 30; ++i) {
    run_all(net, all, 20ms);
    all[2]->peers[process_id{2}].held.clear();
  }
  CHECK(all[2]->peers[process_id{2}].received_data.size() == 30);
  run_all(net, all, 1500ms);
  for (auto& standing : all[0]->links->peers())
    CHECK(standing.outstanding_bytes == 0);
}
