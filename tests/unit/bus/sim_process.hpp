// A process of the simulated network with a message router, and a record of all its events. Checks
// on each message that none of its session is repeated or missing.
#pragma once

#include "cluster/bus/message_router.hpp"
#include "tests/support/sim_bus.hpp"

#include <doctest/doctest.h>

namespace baton::testing {

inline constexpr actor_id control_box{1};
inline constexpr actor_id data_box{2};

struct sim_process {
  struct session {
    bool is_up = false;
    incarnation_id incarnation;
    // Numbers that this process sent with `ok` since the peer came up, of control and data.
    std::vector<std::uint64_t> sent;
    std::vector<std::uint64_t> received;
    std::vector<std::uint64_t> received_data;
    std::uint64_t ups = 0;
    std::uint64_t downs = 0;
    std::vector<std::pair<micro_batch, std::size_t>> held; // data not yet released
  };

  sim_process(sim_network& network, process_id id, incarnation_id incarnation, std::string endpoint,
              cluster::message_router_options options = {}, role as = role::shard)
      : net(network), process(id), own_incarnation(incarnation), wire(network.make_bus(id)) {
    auto bound = wire->bind(endpoint);
    REQUIRE(bound);
    hello self;
    self.process = id;
    self.incarnation = incarnation;
    self.role = as;
    self.name = fmt::format("node-{}", id.value);
    self.endpoint = *bound;
    links = std::make_unique<cluster::message_router>(*wire, self, std::move(options));
    links->publish(control_box, [this](const envelope& e, message&& m) {
      take(e, std::get<sampled>(m).batch.value, false);
    });
    links->publish(data_box, [this](const envelope& e, message&& m) {
      auto& batch = std::get<micro_batch>(m);
      take(e, batch.batch.value, true);
      CHECK(batch.lease);
      auto bytes = batch.activations.size_bytes;
      peers[e.source].held.emplace_back(std::move(batch), bytes);
    });
    links->on_peer_up([this](const hello& h) {
      auto& s = peers[h.process];
      CHECK_FALSE(s.is_up);
      CHECK(h.incarnation >= s.incarnation);
      s.is_up = true;
      s.incarnation = h.incarnation;
      s.sent.clear();
      s.received.clear();
      s.received_data.clear();
      s.held.clear();
      ++s.ups;
    });
    links->on_peer_down([this](process_id n, incarnation_id e, const std::string& why) {
      auto& s = peers[n];
      CHECK(s.is_up);
      CHECK(e == s.incarnation);
      CHECK_FALSE(why.empty());
      s.is_up = false;
      ++s.downs;
    });
    links->start(network.now());
  }

  void take(const envelope& e, std::uint64_t number, bool is_data) {
    auto& s = peers[e.source];
    CHECK(s.is_up);
    CHECK(s.incarnation == e.source_incarnation);
    auto& line = is_data ? s.received_data : s.received;
    if (!line.empty())
      CHECK(number == line.back() + 1);
    line.push_back(number);
  }

  void connect(const sim_process& other) {
    CHECK(links->connect(other.process, other.links->self().endpoint, other.own_incarnation));
  }
  void tick() { links->tick(net.now()); }

  // Numbers continue over all sessions.
  cluster::sent send_control(process_id to) {
    sampled m;
    m.batch = {next_control[to] + 1};
    auto s = links->send(to, control_box, message(m));
    if (s == cluster::sent::ok) {
      ++next_control[to];
      peers[to].sent.push_back(m.batch.value);
    }
    return s;
  }
  static micro_batch batch_of(std::uint64_t number, std::size_t floats) {
    micro_batch m;
    m.batch = {number};
    m.tokens = {1};
    auto rows = std::make_shared<std::vector<float>>(floats);
    m.activations = {rows, reinterpret_cast<const std::byte*>(rows->data()), floats * 4};
    return m;
  }
  cluster::sent send_data(process_id to, std::size_t floats) {
    auto s = links->send(to, data_box, message(batch_of(next_data[to] + 1, floats)));
    if (s == cluster::sent::ok)
      ++next_data[to];
    return s;
  }
  void post_data(process_id to, std::size_t floats) {
    links->post(to, data_box, message(batch_of(++next_data[to], floats)));
  }
  std::size_t held_bytes(process_id from) {
    std::size_t total = 0;
    for (auto& [m, bytes] : peers[from].held)
      total += bytes;
    return total;
  }

  sim_network& net;
  process_id process;
  incarnation_id own_incarnation;
  std::map<process_id, session> peers;
  std::map<process_id, std::uint64_t> next_control;
  std::map<process_id, std::uint64_t> next_data;
  std::unique_ptr<cluster::bus> wire;
  std::unique_ptr<cluster::message_router> links;
};

// Lets the network run, ticking every process each 20 ms.
template <class Processes>
void run_all(sim_network& net, Processes& all, std::chrono::milliseconds time) {
  for (std::chrono::milliseconds done{0}; done < time; done += std::chrono::milliseconds{20}) {
    net.run_for(std::chrono::milliseconds{20});
    for (auto& p : all)
      if (p)
        p->tick();
  }
}

} // namespace baton::testing
