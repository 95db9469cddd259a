// Internals of message_router.hpp: links and queues by process under one lock, and a queue of
// events to deliver. No foreign code runs under the lock: no callback, no destructor of a message.
#pragma once

#include "cluster/bus/exchange.hpp"
#include "cluster/bus/exchange_waiting.hpp"

#include <condition_variable>
#include <map>
#include <mutex>

namespace baton::cluster {

struct exchange::state : std::enable_shared_from_this<exchange::state> {
  struct road {
    link to;
    waiting_line waiting;
  };
  struct delivery {
    envelope about;
    message content;
    lease held; // for kinds that cannot hold it: until delivered
  };
  using notice = std::variant<delivery, hello, std::pair<process_id, link_down>>;

  // The scope of one event: holds the lock. Its destructor unlocks, delivers pending events and
  // destroys discarded messages.
  class turn {
  public:
    explicit turn(state& s) : state_(s), lock_(s.mutex) {}
    ~turn();
    turn(const turn&) = delete;
    turn& operator=(const turn&) = delete;
    std::vector<message> discarded;

  private:
    state& state_;
    std::unique_lock<std::mutex> lock_;
  };

  state(bus& b, hello h, exchange_options o);

  // -- Called in a locked_scope --
  road* find(process_id peer);
  road& find_or_add(process_id peer);
  void forget_clients(turn& t); // clients that have gone
  void apply(turn& t, road& r, link_effects& fx);
  sent transmit(road& r, actor_id target, actor_id source, std::uint64_t correlation,
                const message& m, epoch_id target_incarnation, std::size_t& size_bytes);
  void wait_in_line(turn& t, road& r, waiting_message m);
  void flush(turn& t, road& r);
  void lose(turn& t, road& r, const std::string& why);
  void count(verdict v);
  verdict take_control(turn& t, road& r, const envelope& e, const frames& f);

  // -- Called without the lock --
  void receive(frames&& f);
  void receive_hello(const envelope& e, const frames& f);
  void deliver(const envelope& e, const frames& f, std::uint64_t intake);
  void bus_connected(process_id peer);
  void bus_disconnected(process_id peer, const std::string& why);
  void release(process_id peer, std::uint64_t intake, std::size_t size_bytes);
  void tell();
  void tell_one(notice& n);

  bus& wire;
  hello self; // its endpoint may change
  const exchange_options options;
  std::function<void(const hello&)> up;
  std::function<void(process_id, epoch_id, const std::string&)> down;
  std::function<bool()> turn_over;

  mutable std::mutex mutex;
  std::condition_variable told; // is_delivering became false
  bool is_stopped = false;
  bool is_telling = false;
  instant now;
  std::map<process_id, road> roads;
  std::uint64_t roads_forgotten = 0;
  std::map<actor_id, std::shared_ptr<const receiver>> actors;
  std::deque<notice> notices;
  exchange_counters counters;
};

} // namespace baton::cluster
