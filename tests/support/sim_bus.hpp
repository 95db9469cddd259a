// A network in one process: buses without threads or sockets, a clock moved by hand, and faults
// drawn from one seed. The seed also chooses the event that a step delivers. Messages of a
// connection stay in order, as in the real bus, except under a fault. Frames are copied byte by
// byte.
#pragma once

#include "cluster/bus/bus.hpp"
#include "cluster/bus/link.hpp"

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>

namespace baton::testing {

// Probabilities per message, 0 to 1. `loss` to `corrupt` apply within a connection that stays open.
// A real one never does this; links must detect it all the same.
struct sim_faults {
  double loss = 0;
  double duplicate = 0;
  double reorder = 0; // swaps it with the message before it
  double corrupt = 0; // the message fails verification
  double disconnect = 0;
  std::chrono::milliseconds delay_max{2};
};

// The fault of one message.
enum class sim_fault : std::uint8_t { none, lose, duplicate, corrupt, disconnect };

struct sim_counts {
  std::uint64_t delivered = 0;
  std::uint64_t lost = 0; // by faults, partitions and fallen connections
  std::uint64_t duplicated = 0;
  std::uint64_t reordered = 0;
  std::uint64_t corrupted = 0;
  std::uint64_t disconnects = 0;
};

class sim_network {
public:
  explicit sim_network(std::uint64_t seed);
  ~sim_network();

  // A process's bus. `bind` accepts any text; "" makes a fresh endpoint. The network outlives it.
  std::unique_ptr<cluster::bus> make_bus(process_id id);

  sim_faults faults;
  // Called for each message that a connection accepts; its fault is added to the random ones.
  std::function<sim_fault(process_id from, process_id to)> on_send;
  // Messages on a connection before `send` returns back_pressure.
  std::size_t messages_queued_max = 1000;

  cluster::instant now() const noexcept { return now_; }
  const sim_counts& counts() const noexcept { return counts_; }
  // A digest of all events and messages so far: equal for equal runs.
  std::uint64_t trace() const noexcept { return trace_; }

  // Delivers one event that is due; false if there is none.
  bool step();
  // Time of the next event, if there is one.
  std::optional<cluster::instant> next_due() const;
  // Moves the clock; delivers nothing.
  void advance(std::chrono::milliseconds by);
  // Delivers all events due until then, moving the clock from event to event.
  void run_for(std::chrono::milliseconds by);

  // From now on no message passes from one to the other (call twice for both directions).
  // Connections that it cuts fall after the transport's timeout and reconnect after `heal`.
  void partition(process_id from, process_id to);
  void heal(process_id from, process_id to);
  void heal_all();
  // The connection from one to the other falls, and reconnects by itself.
  void disconnect(process_id from, process_id to);
  // Like kill -9 of the process: its bus is dead, its connections fall. The next make_bus is its
  // next incarnation.
  void crash(process_id id);
  // Like SIGSTOP and SIGCONT: it receives nothing, and incoming messages wait.
  void freeze(process_id id);
  void thaw(process_id id);

private:
  friend class sim_bus;
  struct event {
    cluster::instant due;
    std::function<void()> happen;
  };
  // Events of one source, in order: the messages of a connection, or the facts for its owner.
  struct lane {
    std::uint64_t number = 0; // in order of creation: the order in which the seed chooses
    process_id target;        // the process in which it happens
    std::deque<event> events;
  };
  struct connection;
  struct process;

  std::uint64_t draw(std::uint64_t below);
  void note(std::uint64_t what);
  bool strikes(double chance);
  std::shared_ptr<lane> make_lane(process_id target);
  void put(lane& l, std::chrono::milliseconds after, std::function<void()> happen);
  void try_to_open(const std::shared_ptr<connection>& c);
  void open_later(const std::shared_ptr<connection>& c, std::chrono::milliseconds after);
  void fall(const std::shared_ptr<connection>& c, std::chrono::milliseconds noticed_after);
  void fall_to(const std::shared_ptr<process>& p);
  bool is_cut(process_id from, process_id to) const { return cuts_.contains({from, to}); }
  cluster::sent send(const std::shared_ptr<connection>& c, const frames& f);
  void end(const std::shared_ptr<process>& p);
  std::vector<lane*> due_lanes();

  std::mt19937_64 random_;
  cluster::instant now_{};
  std::uint64_t lanes_made_ = 0;
  std::uint64_t endpoints_made_ = 0;
  std::vector<std::shared_ptr<lane>> lanes_;
  std::map<std::string, std::weak_ptr<process>> bound_;
  std::vector<std::weak_ptr<process>> processes_;
  std::set<std::pair<process_id, process_id>> cuts_;
  std::set<process_id> frozen_;
  sim_counts counts_;
  std::uint64_t trace_ = 0;
};

} // namespace baton::testing
