// What every process of the cluster has, whatever its role: an actor system, the bus with its
// links, a ticker, a way to say how it stands, and SIGTERM. The roles (role_*.cpp) put their actors
// into it.
#pragma once

#include "actors/interfaces.hpp"
#include "cluster/bus/exchange.hpp"
#include "cluster/config/config.hpp"
#include "cluster/files/run_dir.hpp"
#include "cluster/plan/addresses.hpp"

#include <functional>
#include <memory>
#include <string>

namespace baton::cluster {

struct identity {
  node_id node;
  epoch_id epoch;
  role as = role::client;
  std::string name;     // "shard-0"
  std::string endpoint; // where this life of it listens
  node_id supervisor;   // whom it reports to; none for the root
  std::string supervisor_endpoint;
};

class process {
public:
  // Binds the endpoint and starts the threads; nothing is connected yet. Errors: address_in_use,
  // io_failed, bad_config.
  static result<std::unique_ptr<process>> start(identity who, const addresses& where,
                                                std::uint32_t actor_threads);
  // Stops ticking, then the bus, then ends all actors that were handed to `own`, in reverse order.
  ~process();

  caf::actor_system& system();
  exchange& links();
  const identity& self() const;

  // If this actor ends by itself, or is killed by what it did, so does the process.
  static void guard(const caf::actor& actor);
  // Guards it, and ends it when the process ends.
  void own(caf::actor actor);
  template <class Handle>
  Handle own_typed(Handle handle) {
    own(caf::actor_cast<caf::actor>(handle));
    return handle;
  }
  // It runs on the bus's thread (resident_actors.hpp). Only before `begin`.
  template <class Handle>
  Handle own_resident(Handle handle) {
    reside(caf::actor_cast<caf::actor>(handle));
    return own_typed(std::move(handle));
  }
  // Called about every 20 ms from the ticker's thread. Only before `begin`.
  void on_tick(std::function<void()> tick);
  // Called when a peer's link comes up or goes down, from the bus's threads. Only before `begin`.
  void on_peer(std::function<void(const hello&)> up,
               std::function<void(node_id, epoch_id, const std::string&)> down);
  // A typed actor that takes peer_up and peer_down hears of them.
  template <class Handle>
  void tell_peers(Handle handle) {
    on_peer([handle](const hello& h) { caf::anon_send(handle, actors::peer_up{h}); },
            [handle](node_id n, epoch_id e, const std::string& why) {
              caf::anon_send(handle, actors::peer_down{n, e, why});
            });
  }
  // Called from the ticker's thread when this machine has another key now. Only before `begin`.
  void on_key(std::function<void(const key_pair&)> changed);
  // Tells the supervisor, now and whenever it is (re)connected.
  void report(phase p, std::string reason = {}, double progress = 0);

  // Starts the links (first of all to the supervisor) and the ticker.
  void begin();
  // Waits for the signal that asks this process to end (SIGTERM or SIGINT); 0 after `stop`, from
  // any thread.
  int wait();
  // Waits a few milliseconds; true if such a signal came: wait() gives it again, at once.
  bool wait_briefly();
  // Waits for `stop`, whatever signals come: who leaves before its children have ended leaves them
  // behind. At most `stop_patience`, which is said in the log.
  void wait_stopped();
  void stop();

private:
  struct parts;
  void reside(const caf::actor& actor);
  explicit process(std::unique_ptr<parts> p);
  std::unique_ptr<parts> parts_;
};

// To call first thing in main, before any thread: SIGTERM, SIGINT and SIGHUP are taken by
// process::run alone.
void block_signals();

// The version and source that this binary was built from: only equal builds link to one another.
std::string_view build_version() noexcept;

// A supervisor ends its children one after the other, each within actors::supervisor_config's
// kill_after.
inline constexpr std::chrono::seconds stop_patience{120};

// Waits at most so long for a signal that asks this process to end: its number, or 0.
int wait_for_end(std::chrono::milliseconds patience);

// Steady clock in microseconds.
std::uint64_t now_micros();
// The wall clock's: epochs of a node's lives grow by it, whoever begins them.
std::uint64_t wall_micros();

} // namespace baton::cluster
