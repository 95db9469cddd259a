// The exchange over a simulated network without faults, or with one fault at a time.
#include "tests/unit/bus/bus_nodes.hpp"
#include "tests/unit/bus/sim_process.hpp"

using namespace baton;
using namespace baton::testing;
using namespace std::chrono_literals;
using cluster::exchange_options;
using cluster::link_state;
using cluster::sent;

namespace {

struct pair {
  sim_network net{7};
  std::vector<std::unique_ptr<sim_process>> all;

  explicit pair(exchange_options o = {}) {
    all.push_back(std::make_unique<sim_process>(net, head_node, epoch_id{1}, "sim://head", o));
    all.push_back(std::make_unique<sim_process>(net, shard_node, epoch_id{1}, "sim://shard", o));
  }
  sim_process& h() { return *all[0]; }
  sim_process& s() { return *all[1]; }
  void run(std::chrono::milliseconds t) { run_all(net, all, t); }
  void link() {
    s().connect(h());
    run(100ms);
    REQUIRE(h().links->is_up(shard_node));
    REQUIRE(s().links->is_up(head_node));
  }
};

exchange_options small_window(std::uint64_t bytes) {
  exchange_options o;
  o.link.window_bytes = bytes;
  return o;
}

} // namespace

TEST_CASE("one side knowing the other's address is enough for both to come up within a few hops") {
  pair p;
  p.s().connect(p.h());
  p.net.run_for(15ms); // no tick at all
  CHECK(p.h().links->is_up(shard_node));
  CHECK(p.s().links->is_up(head_node));
  CHECK(p.h().peers[shard_node].ups == 1);
  CHECK(p.h().links->peers().at(0).name == "node-2");
}

TEST_CASE("both sides connecting at once come up once") {
  pair p;
  p.s().connect(p.h());
  p.h().connect(p.s());
  p.run(2000ms);
  CHECK(p.h().peers[shard_node].ups == 1);
  CHECK(p.s().peers[head_node].ups == 1);
  CHECK(p.h().peers[shard_node].downs == 0);
}

TEST_CASE("messages come in order, with source, correlation and a lease on data") {
  pair p;
  p.link();
  std::vector<envelope> seen;
  p.h().links->publish(actor_id{9}, [&](const envelope& e, message&&) { seen.push_back(e); });
  CHECK(p.s().links->send(head_node, actor_id{9}, message(cancel{}), actor_id{4}, 77) == sent::ok);
  for (int i = 0; i < 50; ++i) {
    CHECK(p.s().send_control(head_node) == sent::ok);
    CHECK(p.s().send_data(head_node, 64) == sent::ok);
  }
  p.run(100ms);
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].source_actor == actor_id{4});
  CHECK(seen[0].correlation == 77);
  CHECK(p.h().peers[shard_node].received.size() == 50);
  CHECK(p.h().peers[shard_node].received_data.size() == 50);
}

TEST_CASE("a message to an unknown node, a peer that is down or an unpublished actor is told") {
  pair p;
  CHECK(p.s().send_control(node_id{9}) == sent::unknown_peer);
  CHECK(p.s().links->connect(head_node, "sim://nowhere"));
  CHECK(p.s().send_control(head_node) == sent::down);
  p.s().post_data(head_node, 1);
  CHECK(p.s().links->counters().dropped == 1);
  p.s().links->disconnect(head_node);
  p.link();
  CHECK(p.s().links->send(head_node, actor_id{99}, message(cancel{})) == sent::ok);
  p.run(50ms);
  CHECK(p.h().links->counters().unknown_actor == 1);
  CHECK(p.h().links->is_up(shard_node));
  p.h().links->withdraw(control_box);
  CHECK(p.s().send_control(head_node) == sent::ok);
  p.run(50ms);
  CHECK(p.h().links->counters().unknown_actor == 2);
}

TEST_CASE("a node is no peer of itself") {
  pair p;
  CHECK_FALSE(p.s().links->connect(shard_node, "sim://shard"));
  CHECK_FALSE(p.s().links->connect(node_id{}, "sim://shard"));
}

TEST_CASE("silence brings a peer down, and it comes up again when it speaks") {
  pair p;
  p.link();
  p.net.freeze(shard_node);
  for (int i = 0; i < 300; ++i) {
    p.net.run_for(20ms);
    p.h().tick();
  }
  CHECK(p.h().peers[shard_node].downs == 1);
  CHECK_FALSE(p.h().links->is_up(shard_node));
  p.net.thaw(shard_node);
  p.run(6000ms);
  CHECK(p.h().links->is_up(shard_node));
  CHECK(p.s().links->is_up(head_node));
  CHECK(p.s().peers[head_node].downs == 1);
}

TEST_CASE("idle links stay up by heartbeats alone") {
  pair p;
  p.link();
  constexpr auto idle = 60'000ms;
  p.run(idle);
  CHECK(p.h().peers[shard_node].downs == 0);
  CHECK(p.s().peers[head_node].downs == 0);
  const auto beats = 2 * idle / cluster::link_options{}.heartbeat_interval; // of both sides
  CHECK(p.net.counts().delivered < static_cast<std::uint64_t>(beats) * 5 / 4);
}

TEST_CASE("a fallen connection brings both sides down and up again without a tick") {
  pair p;
  p.link();
  p.net.disconnect(shard_node, head_node);
  p.net.run_for(50ms);
  CHECK(p.s().peers[head_node].downs == 1);
  CHECK(p.h().peers[shard_node].downs == 1);
  CHECK(p.s().links->is_up(head_node));
  CHECK(p.h().links->is_up(shard_node));
}

TEST_CASE("the next life of a peer replaces the old one, whose frames are refused") {
  pair p;
  p.link();
  bool hangs = true;
  SUBCASE("after a crash that was seen") {
    hangs = false;
    p.net.crash(shard_node);
    p.run(20ms);
    CHECK(p.h().peers[shard_node].downs == 1);
  }
  SUBCASE("while the old one still hangs") {
    p.net.freeze(shard_node);
  }
  auto old = std::move(p.all[1]);
  p.net.thaw(shard_node);
  p.all[1] = std::make_unique<sim_process>(p.net, shard_node, epoch_id{2}, "sim://shard-2");
  p.s().connect(p.h());
  p.run(100ms);
  CHECK(p.h().peers[shard_node].downs == 1);
  CHECK(p.h().peers[shard_node].epoch == epoch_id{2});
  CHECK(p.h().links->is_up(shard_node));
  CHECK(p.s().links->is_up(head_node));
  const auto stale = p.h().links->counters().stale;
  if (hangs) { // and now goes on talking
    CHECK(old->send_control(head_node) == sent::ok);
    p.run(50ms);
    CHECK(p.h().links->counters().stale > stale);
  }
  CHECK(p.h().peers[shard_node].received.empty());
  CHECK(p.s().send_control(head_node) == sent::ok);
  p.run(50ms);
  CHECK(p.h().peers[shard_node].received.size() == 1);
}

TEST_CASE("data stops at the window, control does not, and released data makes room") {
  pair p(small_window(64 * 1024));
  p.link();
  int sent_data = 0;
  while (p.s().send_data(head_node, 1024) == sent::ok)
    ++sent_data;
  CHECK(sent_data == 15); // 16 x (4 KiB and its frame) is above 64 KiB
  CHECK(p.s().send_control(head_node) == sent::ok);
  p.run(50ms);
  CHECK(p.h().peers[shard_node].received.size() == 1);
  CHECK(p.s().send_data(head_node, 1024) == sent::back_pressure);
  p.h().peers[shard_node].held.resize(8);
  p.run(50ms);
  CHECK(p.s().send_data(head_node, 1024) == sent::ok);
  p.h().peers[shard_node].held.clear();
  p.run(1100ms);
  CHECK(p.s().links->peers().at(0).outstanding_bytes < 5000);
  SUBCASE("a message larger than the window goes alone") {
    p.h().peers[shard_node].held.clear();
    p.run(1100ms);
    CHECK(p.s().send_data(head_node, 100'000) == sent::ok);
    CHECK(p.s().send_data(head_node, 1) == sent::back_pressure);
    p.run(50ms);
    p.h().peers[shard_node].held.clear();
    p.run(50ms);
    CHECK(p.s().send_data(head_node, 100'000) == sent::ok);
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
    p.s().links->post(head_node, actor_id{9}, message(t));
  }
  p.run(2000ms);
  CHECK(taken == 1000);
  CHECK(p.s().links->counters().back_pressure > 0);
}

TEST_CASE("posted messages wait in order for credit, and control passes them") {
  pair p(small_window(16 * 1024));
  p.link();
  for (int i = 0; i < 100; ++i)
    p.s().post_data(head_node, 1024);
  CHECK(p.s().links->peers().at(0).waiting_count == 97);
  CHECK(p.s().send_control(head_node) == sent::ok);
  p.run(40ms);
  CHECK(p.h().peers[shard_node].received.size() == 1);
  for (int i = 0; i < 200 && p.h().peers[shard_node].received_data.size() < 100; ++i) {
    CHECK(p.h().held_bytes(shard_node) <= 16 * 1024);
    p.h().peers[shard_node].held.clear();
    p.run(20ms);
  }
  CHECK(p.h().peers[shard_node].received_data.size() == 100);
}

TEST_CASE("too much waiting loses the link rather than a message") {
  auto o = small_window(1024);
  o.waiting_bytes_max = 64 * 1024;
  pair p(o);
  p.link();
  for (int i = 0; i < 100; ++i)
    p.s().post_data(head_node, 1024);
  CHECK(p.s().peers[head_node].downs == 1);
  p.run(1000ms);
  CHECK(p.s().links->is_up(head_node));
  CHECK(p.s().links->peers().at(0).waiting_count == 0);
}

TEST_CASE("a full road is back-pressure for send, and for post a short wait") {
  pair p;
  p.link();
  p.net.messages_queued_max = 10;
  int ok = 0;
  while (p.s().send_control(head_node) == sent::ok)
    ++ok;
  CHECK(ok <= 10);
  for (int i = 0; i < 30; ++i)
    p.s().post_data(head_node, 1);
  p.run(200ms);
  CHECK(p.h().peers[shard_node].received_data.size() == 30);
  CHECK(p.h().peers[shard_node].downs == 0);
}

TEST_CASE("a peer that is not admitted is told why and stays down on both sides") {
  exchange_options picky;
  picky.admit = [](const hello& h) -> result<void> {
    if (h.node == shard_node)
      return fail(errc::version_mismatch, "another build");
    return {};
  };
  sim_network net(3);
  std::vector<std::unique_ptr<sim_process>> all;
  all.push_back(std::make_unique<sim_process>(net, head_node, epoch_id{1}, "sim://head", picky));
  all.push_back(std::make_unique<sim_process>(net, shard_node, epoch_id{1}, "sim://shard"));
  all[1]->connect(*all[0]);
  run_all(net, all, 3000ms);
  CHECK_FALSE(all[0]->links->is_up(shard_node));
  CHECK_FALSE(all[1]->links->is_up(head_node));
  CHECK(all[0]->links->counters().refused > 0);
  CHECK(all[1]->links->peers().at(0).reason == "another build");
}

TEST_CASE("frames that do not verify are counted, and the peer that speaks truly stays up") {
  pair p;
  p.link();
  auto stranger = p.net.make_bus(node_id{66});
  stranger->start({[](frames&&) {}, [](node_id) {}, [](node_id, std::string) {}});
  REQUIRE(stranger->connect(head_node, "sim://head"));
  p.run(20ms);
  auto bytes = std::make_shared<std::vector<std::byte>>(512, std::byte{0x5a});
  frames garbage;
  garbage.head = {bytes, bytes->data(), 200};
  garbage.body = {bytes, bytes->data(), 512};
  for (int i = 0; i < 20; ++i)
    CHECK(stranger->send(head_node, garbage) == sent::ok);
  // Frames that verify, but forged: numbers, lives and targets that are wrong, hellos that lie.
  envelope e;
  e.source = shard_node;
  e.source_epoch = epoch_id{1};
  e.target = head_node;
  e.target_epoch = epoch_id{5};
  CHECK(stranger->send(head_node, encode(e, message(sampled{}))) == sent::ok);
  e.target = node_id{44};
  CHECK(stranger->send(head_node, encode(e, message(sampled{}))) == sent::ok);
  e.source = node_id{77};
  e.target = head_node;
  CHECK(stranger->send(head_node, encode(e, message(sampled{}))) == sent::ok);
  e.source = head_node;
  CHECK(stranger->send(head_node, encode(e, message(hello{}))) == sent::ok);
  p.run(100ms);
  const auto c = p.h().links->counters();
  CHECK(c.bad >= 22);
  CHECK(c.stale == 1);
  CHECK(c.unknown_peer == 1);
  CHECK(p.h().links->is_up(shard_node));
  CHECK(p.s().send_control(head_node) == sent::ok);
  p.run(50ms);
  CHECK(p.h().peers[shard_node].received.size() == 1);
}

TEST_CASE("strangers cannot make the exchange keep more links than its bound") {
  exchange_options o;
  o.peers_max = 5;
  sim_network net(3);
  sim_process h(net, head_node, epoch_id{1}, "sim://head", o);
  auto stranger = net.make_bus(node_id{66});
  stranger->start({[](frames&&) {}, [](node_id) {}, [](node_id, std::string) {}});
  REQUIRE(stranger->connect(head_node, "sim://head"));
  net.run_for(20ms);
  for (std::uint32_t i = 100; i < 150; ++i) {
    hello lie;
    lie.node = node_id{i};
    lie.epoch = epoch_id{1};
    lie.endpoint = "sim://nowhere";
    envelope e;
    e.source = lie.node;
    e.source_epoch = lie.epoch;
    e.target = head_node;
    e.correlation = e.sequence = 1;
    CHECK(stranger->send(head_node, encode(e, message(lie))) == sent::ok);
  }
  net.run_for(100ms);
  CHECK(h.links->peers().size() == 5);
}

TEST_CASE("a client that has gone is forgotten, a shard is waited for") {
  for (const auto as : {role::client, role::shard}) {
    sim_network net(7);
    sim_process h(net, head_node, epoch_id{1}, "sim://head");
    for (std::uint64_t life = 1; life <= 3; ++life) {
      std::vector<std::unique_ptr<sim_process>> all;
      all.push_back(std::make_unique<sim_process>(
          net, shard_node, epoch_id{life}, fmt::format("sim://{}", life), exchange_options{}, as));
      all[0]->connect(h);
      const auto run = [&](std::chrono::milliseconds t) {
        for (std::chrono::milliseconds done{0}; done < t; done += 20ms) {
          run_all(net, all, 20ms);
          h.tick();
        }
      };
      run(100ms);
      REQUIRE(h.links->is_up(shard_node));
      CHECK(h.peers[shard_node].ups == life);
      run(5000ms); // it says nothing but heartbeats, and stays
      REQUIRE(h.links->is_up(shard_node));
      all.clear();
      run(3000ms);
      CHECK(h.links->peers().size() == (as == role::client ? 0 : 1));
      CHECK(h.peers[shard_node].downs == life);
    }
  }
}

TEST_CASE("a lease may end after its exchange") {
  std::vector<std::pair<micro_batch, std::size_t>> kept;
  {
    pair p;
    p.link();
    CHECK(p.s().send_data(head_node, 16) == sent::ok);
    p.run(50ms);
    kept = std::move(p.h().peers[shard_node].held);
  }
  REQUIRE(kept.size() == 1);
  CHECK(kept[0].first.lease.use_count() == 1);
  kept.clear();
}

TEST_CASE("callbacks may call the exchange, and a message passed on keeps its lease until sent") {
  sim_network net(11);
  std::vector<std::unique_ptr<sim_process>> all;
  for (std::uint32_t n = 1; n <= 3; ++n)
    all.push_back(
        std::make_unique<sim_process>(net, node_id{n}, epoch_id{1}, "", small_window(8 * 1024)));
  all[0]->connect(*all[1]);
  all[1]->connect(*all[2]);
  run_all(net, all, 100ms);
  auto& middle = *all[1]->links;
  middle.publish(data_box, [&](const envelope&, message&& m) {
    middle.post(node_id{3}, data_box, std::move(m));
  });
  for (int i = 0; i < 30; ++i)
    all[0]->post_data(node_id{2}, 512);
  for (int i = 0; i < 400 && all[2]->peers[node_id{2}].received_data.size() < 30; ++i) {
    run_all(net, all, 20ms);
    all[2]->peers[node_id{2}].held.clear();
  }
  CHECK(all[2]->peers[node_id{2}].received_data.size() == 30);
  run_all(net, all, 1500ms);
  for (auto& standing : all[0]->links->peers())
    CHECK(standing.outstanding_bytes == 0);
}
