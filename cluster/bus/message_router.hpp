// Routes messages between the actors of this process and its peers. It owns the links to all peers
// over one bus. It does not depend on CAF (proxy.hpp does).
//
// Guarantees for actors: messages of one peer arrive in order, exactly once, without gaps. If one
// is lost, the peer goes down first. A peer is up only after both sides have greeted.
#pragma once

#include "cluster/bus/bus.hpp"
#include "cluster/bus/link.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace baton::cluster {

struct message_router_options {
  link_options link;
  // Limits of the messages that `post` queues per peer under back-pressure: one window of data, and
  // more control messages than a pipeline ever has in flight.
  std::uint64_t waiting_bytes_max = 64ull << 20;
  std::size_t waiting_count_max = 64u << 10;
  // Processes that may greet us without a prior `connect`.
  std::size_t peers_max = cluster::peers_max;
  // Refuses a peer (another build, a role that does not belong here). Empty: all are admitted.
  std::function<result<void>(const hello&)> admit;
  // Progress of this process, for its heartbeats. Empty: 0.
  std::function<std::uint64_t()> steps;
};

struct message_router_counters {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t delivered = 0;
  std::uint64_t stale = 0;         // of an incarnation or connection that has ended
  std::uint64_t early = 0;         // from a peer that was not up
  std::uint64_t lost = 0;          // links lost by a gap, a repeat or bad credit
  std::uint64_t bad = 0;           // failed to decode, or not for us
  std::uint64_t version = 0;       // of another protocol version
  std::uint64_t refused = 0;       // hellos that were not admitted
  std::uint64_t unknown_peer = 0;  // from or to a process that never greeted
  std::uint64_t unknown_actor = 0; // the actor is not published, or does not take this kind
  std::uint64_t dropped = 0;       // posted while the peer was down
  std::uint64_t back_pressure = 0; // not accepted at once
  std::uint64_t peers_up = 0;      // now
};

struct peer_state {
  process_id process;
  incarnation_id incarnation;
  link_state state = link_state::down;
  std::string name;
  std::string endpoint;
  std::string reason; // why it is not up
  std::uint64_t steps = 0;
  std::uint64_t outstanding_bytes = 0;
  std::uint64_t waiting_count = 0;
};

class message_router {
public:
  using receiver = std::function<void(const envelope&, message&&)>;

  // `self.endpoint` is where peers connect back to: the bus is already bound. The bus must outlive
  // the router.
  message_router(bus& wire, hello self, message_router_options options);
  ~message_router();
  message_router(const message_router&) = delete;
  message_router& operator=(const message_router&) = delete;

  // -- Setup. Callbacks run on the bus's, the ticker's or a sender's thread, one at a time, without
  // a lock. They may call anything here except `stop`, and should be short. --
  void publish(actor_id id, receiver to);
  // A message in flight may still be delivered once.
  void withdraw(actor_id id);
  // Before `start` only.
  void on_peer_up(std::function<void(const hello&)> up);
  void on_peer_down(std::function<void(process_id, incarnation_id, const std::string& why)> down);
  // See bus_events::round_over; unlike other callbacks it may take long.
  void on_round_over(std::function<bool()> round_over);
  void start(instant now = std::chrono::steady_clock::now());
  // No callback runs after it returns. Must not be called from within a callback.
  void stop();

  // -- Peers --

  // Connects to a known address. `incarnation`: its owner's, if known; an address older than the
  // current one is ignored. Errors: bad_config (the bus refuses it).
  result<void> connect(process_id peer, const std::string& endpoint,
                       incarnation_id incarnation = {});
  void disconnect(process_id peer);
  // Peers that are greeted from now on connect back to this endpoint.
  void listen_at(const std::string& endpoint);
  bool is_up(process_id peer) const;
  std::vector<peer_state> peers() const;
  hello self() const;
  message_router_counters counters() const;
  // Handles heartbeats, deadlines and queued messages. Call every 10 to 50 ms.
  void tick(instant now);

  // -- Messages; any thread, never blocks --

  // Takes the message only if it returns ok.
  sent send(process_id peer, actor_id target, message&& m, actor_id source = {},
            std::uint64_t correlation = 0);
  // For senders that cannot wait (proxies): queues the message under back-pressure. If the peer is
  // down, drops and counts it; handlers of peer_down do the recovery. If the queue is full, the
  // link is lost.
  void post(process_id peer, actor_id target, message&& m, actor_id source = {},
            std::uint64_t correlation = 0);
  // Counts a message of a kind that its published actor does not take.
  void count_unknown();

private:
  struct state;
  std::shared_ptr<state> state_;
};

} // namespace baton::cluster
