// The common part of all processes: an actor system, the bus with its links, a ticker, status
// reports, and SIGTERM. The roles (role_*.cpp) add their actors.
#pragma once

#include "actors/interfaces.hpp"
#include "cluster/bus/message_router.hpp"
#include "cluster/config/config.hpp"
#include "cluster/files/run_dir.hpp"
#include "cluster/plan/addresses.hpp"

#include <functional>
#include <memory>
#include <string>

namespace baton::cluster {

struct identity {
  process_id process;
  incarnation_id incarnation;
  role as = role::client;
  std::string name;      // "shard-0"
  std::string endpoint;  // where this incarnation listens
  process_id supervisor; // the process it reports to; none for the root
  std::string supervisor_endpoint;
};

class process {
public:
  // Binds the endpoint and starts the threads, but connects nothing yet. Errors: address_in_use,
  // io_failed, bad_config.
  static result<std::unique_ptr<process>> start(identity who, const addresses& where,
                                                std::uint32_t actor_threads);
  // Stops the ticker, then the bus, then ends the owned actors in reverse order.
  ~process();

  caf::actor_system& system();
  message_router& links();
  const identity& self() const;

  // Ends the process if the actor ends by itself or with an error.
  static void guard(const caf::actor& actor);
  // Guards the actor, and ends it when the process ends.
  void own(caf::actor actor);
  template <class Handle>
  Handle own_typed(Handle handle) {
    own(caf::actor_cast<caf::actor>(handle));
    return handle;
  }
  // Pins the actor to the bus's thread (pinned_actors). Only before `begin`.
  template <class Handle>
  Handle own_pinned(Handle handle) {
    pin(caf::actor_cast<caf::actor>(handle));
    return own_typed(std::move(handle));
  }
  // Called about every 20 ms from the ticker's thread. Only before `begin`.
  void on_tick(std::function<void()> tick);
  // Called when a peer's link comes up or goes down, from the bus's threads. Only before `begin`.
  void on_peer(std::function<void(const hello&)> up,
               std::function<void(process_id, incarnation_id, const std::string&)> down);
  // Sends peer_up and peer_down to a typed actor.
  template <class Handle>
  void forward_peer_events(Handle handle) {
    on_peer([handle](const hello& h) { caf::anon_send(handle, actors::peer_up{h}); },
            [handle](process_id n, incarnation_id e, const std::string& why) {
              caf::anon_send(handle, actors::peer_down{n, e, why});
            });
  }
  // Called from the ticker's thread when this machine's key has changed. Only before `begin`.
  void on_key(std::function<void(const key_pair&)> changed);
  // Reports to the supervisor, now and whenever it (re)connects.
  void report(phase p, std::string reason = {}, double progress = 0);

  // Starts the links, the supervisor's first, and the ticker.
  void begin();
  // Waits for the signal that asks this process to end (SIGTERM or SIGINT); 0 after `stop`, from
  // any thread.
  int wait();
  // Waits a few milliseconds. True if a signal came; wait() then returns it at once.
  bool wait_briefly();
  // Waits for `stop`, whatever signals come: leaving earlier would leave children behind. Waits at
  // most `stop_patience`, and logs if that is exceeded.
  void wait_stopped();
  void stop();

private:
  struct parts;
  void pin(const caf::actor& actor);
  explicit process(std::unique_ptr<parts> p);
  std::unique_ptr<parts> parts_;
};

// Call it first in main, before any thread: only process::wait takes SIGTERM, SIGINT and SIGHUP.
void block_signals();

// The version and source of this binary. Only equal builds connect to each other.
std::string_view build_version() noexcept;

// A supervisor ends its children one after the other, each within supervisor_config's kill_after.
inline constexpr std::chrono::seconds stop_patience{120};

// Waits for a signal that asks this process to end: its number, or 0 after `patience`.
int wait_for_end(std::chrono::milliseconds patience);

// Steady clock in microseconds.
std::uint64_t now_micros();
// Wall clock in microseconds: the basis of incarnations, which grow whichever process starts them.
std::uint64_t wall_micros();

} // namespace baton::cluster
