// The post office of a process: owns the links to all peers over one bus, gives each message to the
// actor it is for, and takes messages for actors elsewhere. Knows nothing of CAF (proxy.hpp does).
//
// What actors may rely on: messages of one peer come in order, each once, none missing; if one is
// lost, the peer goes down first. A peer is up only after both greeted.
#pragma once

#include "cluster/bus/bus.hpp"
#include "cluster/bus/link.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace baton::cluster {

struct exchange_options {
  link_options link;
  // Messages that `post` keeps per peer while the road is full: as much as one window of data, and
  // more control messages than a pipeline ever has in flight.
  std::uint64_t waiting_bytes_max = 64ull << 20;
  std::size_t waiting_count_max = 64u << 10;
  // Nodes that may greet us without having been named by `connect`.
  std::size_t peers_max = cluster::peers_max;
  // Refuses a peer (another build, a role that does not belong here). Empty: all may come.
  std::function<result<void>(const hello&)> admit;
  // Progress of this process, for its heartbeats. Empty: 0.
  std::function<std::uint64_t()> steps;
};

struct exchange_counters {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t delivered = 0;
  std::uint64_t stale = 0;         // of an epoch or connection that is over
  std::uint64_t early = 0;         // from a peer that was not up
  std::uint64_t lost = 0;          // links that fell by a gap, a repeat or bad credit
  std::uint64_t bad = 0;           // did not verify, or not for us
  std::uint64_t version = 0;       // of another protocol version
  std::uint64_t refused = 0;       // hellos that were not admitted
  std::uint64_t unknown_peer = 0;  // from or to a node that never greeted
  std::uint64_t unknown_actor = 0; // for an actor that is not published, or of a kind it refuses
  std::uint64_t dropped = 0;       // posted while the peer was down
  std::uint64_t back_pressure = 0; // not taken at once
  std::uint64_t peers_up = 0;      // now
};

struct peer_standing {
  node_id node;
  epoch_id epoch;
  link_state state = link_state::down;
  std::string name;
  std::string endpoint;
  std::string reason; // why it is not up
  std::uint64_t steps = 0;
  std::uint64_t outstanding_bytes = 0;
  std::uint64_t waiting_count = 0;
};

class exchange {
public:
  using receiver = std::function<void(const envelope&, message&&)>;

  // `self.endpoint` is where peers connect back to: the bus is bound already. The bus outlives the
  // exchange.
  exchange(bus& wire, hello self, exchange_options options);
  ~exchange();
  exchange(const exchange&) = delete;
  exchange& operator=(const exchange&) = delete;

  // -- Set up; callbacks come from the bus's, the ticker's or a sender's thread, one at a time, no
  // lock held. They may call anything here but `stop`, and should be short. --
  void publish(actor_id id, receiver to);
  // A message that is on its way may still come once.
  void withdraw(actor_id id);
  // Only before `start`.
  void on_peer_up(std::function<void(const hello&)> up);
  void on_peer_down(std::function<void(node_id, epoch_id, const std::string& why)> down);
  // See bus_events::turn_over; unlike the others this one may take its time.
  void on_turn_over(std::function<bool()> turn_over);
  void start(instant now = std::chrono::steady_clock::now());
  // No callback comes after it has returned. Not from within a callback.
  void stop();

  // -- Peers --

  // We know an address. `epoch`: of the life it belongs to, if known: then an older address than
  // the one we have is ignored. Errors: bad_config (the bus refuses it).
  result<void> connect(node_id peer, const std::string& endpoint, epoch_id epoch = {});
  void disconnect(node_id peer);
  // Peers that are greeted from now on connect back to here.
  void listen_at(const std::string& endpoint);
  bool is_up(node_id peer) const;
  std::vector<peer_standing> peers() const;
  hello self() const;
  exchange_counters counters() const;
  // Heartbeats, deadlines, what waits. Every 10 to 50 ms.
  void tick(instant now);

  // -- Messages; any thread, never blocks --

  // Takes the message only if the answer is ok.
  sent send(node_id peer, actor_id target, message&& m, actor_id source = {},
            std::uint64_t correlation = 0);
  // For senders that cannot wait (proxies): keeps the message while the road is full. If the peer
  // is down, drops and counts it: recovery is the business of whoever hears peer_down. If too much
  // waits, the link is lost.
  void post(node_id peer, actor_id target, message&& m, actor_id source = {},
            std::uint64_t correlation = 0);
  // A published actor was given a kind that it does not take.
  void count_unknown();

private:
  struct state;
  std::shared_ptr<state> state_;
};

} // namespace baton::cluster
