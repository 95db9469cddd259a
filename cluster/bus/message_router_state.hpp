// Internals of message_router.hpp: links and queues by process under one lock, and a queue of
// events to deliver. No foreign code runs under the lock: no callback, no destructor of a message.
#pragma once

#include "cluster/bus/message_router.hpp"
#include "cluster/bus/outbound_queue.hpp"

#include <condition_variable>
#include <map>
#include <mutex>

namespace baton::cluster {

struct message_router::state : std::enable_shared_from_this<message_router::state> {
  struct peer_route {
    link to;
    outbound_queue waiting;
  };
  struct delivery {
    envelope about;
    message content;
    lease held; // for kinds that cannot hold it: until delivered
  };
  using bus_event = std::variant<delivery, hello, std::pair<process_id, link_down>>;

  // The scope of one event: holds the lock. Its destructor unlocks, delivers pending events and
  // destroys discarded messages.
  class locked_scope {
  public:
    explicit locked_scope(state& s) : state_(s), lock_(s.mutex) {}
    ~locked_scope();
    locked_scope(const locked_scope&) = delete;
    locked_scope& operator=(const locked_scope&) = delete;
    std::vector<message> discarded;

  private:
    state& state_;
    std::unique_lock<std::mutex> lock_;
  };

  state(bus& b, hello h, message_router_options o);

  // -- Called in a locked_scope --
  peer_route* find(process_id peer);
  peer_route& find_or_add(process_id peer);
  void forget_clients(locked_scope& t); // clients that have gone
  void apply(locked_scope& t, peer_route& r, link_effects& fx);
  sent transmit(peer_route& r, actor_id target, actor_id source, std::uint64_t correlation,
                const message& m, incarnation_id target_incarnation, std::size_t& size_bytes);
  void enqueue(locked_scope& t, peer_route& r, waiting_message m);
  void flush(locked_scope& t, peer_route& r);
  void lose(locked_scope& t, peer_route& r, const std::string& why);
  void count(verdict v);
  verdict take_control(locked_scope& t, peer_route& r, const envelope& e, const frames& f);

  // -- Called without the lock --
  void receive(frames&& f);
  void receive_hello(const envelope& e, const frames& f);
  void deliver(const envelope& e, const frames& f, std::uint64_t intake);
  void bus_connected(process_id peer);
  void bus_disconnected(process_id peer, const std::string& why);
  void release(process_id peer, std::uint64_t intake, std::size_t size_bytes);
  void deliver_events();
  void deliver_event(bus_event& n);

  bus& wire;
  hello self; // its endpoint may change
  const message_router_options options;
  std::function<void(const hello&)> up;
  std::function<void(process_id, incarnation_id, const std::string&)> down;
  std::function<bool()> round_over;

  mutable std::mutex mutex;
  std::condition_variable delivery_ended; // is_delivering became false
  bool is_stopped = false;
  bool is_delivering = false;
  instant now;
  std::map<process_id, peer_route> peer_routes;
  std::uint64_t forgotten_routes = 0;
  std::map<actor_id, std::shared_ptr<const receiver>> actors;
  std::deque<bus_event> pending_events;
  message_router_counters counters;
};

} // namespace baton::cluster
