// The supervisor of one process's children. It adopts children left by a previous supervisor,
// starts the others in order, restarts dead ones within their intensity, and stops them in reverse.
// Used by the root (gateway, head, agents) and by a node agent (its shards). Process control and
// clock are passed in, so that the same actor runs in simulation.
#pragma once

#include "actors/interfaces.hpp"
#include "actors/restart.hpp"
#include "schema/result.hpp"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace baton::actors {

struct child_spec {
  std::string name; // "gateway", "shard-1"
  process_id process;
  baton::role role = baton::role::shard;
  restart_intensity intensity;
  // On another machine and started there: its presence follows its link, and it reports its own
  // incarnation.
  bool is_elsewhere = false;
  // The number of its own children, which it stops one by one, each within `kill_after`, before it
  // ends. If it were killed earlier, they would keep running.
  std::uint32_t children = 0;
  // Maximum time until an incarnation is ready; 0: unlimited.
  std::chrono::milliseconds startup_max{0};
  // Grace period when this child alone is being retired; at least `kill_after`.
  std::chrono::milliseconds retire_max{0};
};

// A child left running by another supervisor.
struct left_child {
  std::int32_t pid = 0;
  epoch_id incarnation;
};

// A child process ended; sent by the code that waits for it (cluster/child_watch).
struct child_exited {
  process_id process;
  epoch_id incarnation;
  std::string how;           // "killed by signal 9", "exit status 1"
  bool is_permanent = false; // the child reported that a restart cannot help (bad configuration...)
  bool has_failed = false;   // an unexpected end, even if it was asked to end
  std::string name = {};     // of the child
};

// The complete new set of children: new ones are started; missing ones are asked to stop, and
// removed after they end. Their ends do not affect siblings.
struct wanted_children {
  std::vector<child_spec> all;
};

} // namespace baton::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::actors::child_exited)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::actors::wanted_children)

namespace baton::actors {

using supervisor_actor =
    takes<status, drain, child_exited, wanted_children, peer_up, peer_down, tick>;

struct supervisor_config {
  std::string name;                 // as named in its children's status: "root", "agent-a"
  std::vector<child_spec> children; // in start order
  restart_strategy strategy = restart_strategy::one_for_one;
  // The child's process, if it already runs; called once per child. Its end is reported.
  std::function<std::optional<left_child>(const child_spec&)> adopt;
  std::function<result<std::int32_t>(const child_spec&, epoch_id)> start; // returns the pid
  // SIGTERM, or SIGKILL; elsewhere a stop message, without force.
  std::function<void(const child_spec&, std::int32_t pid, bool force)> stop;
  // The status of changed children; of all children after a root has connected.
  std::function<void(const std::vector<status>&)> changed;
  std::function<void(const status& failed)> escalate; // a child exceeded its intensity
  std::function<void()> stopped;                      // after drain: all children have ended
  // Whether the next incarnation of a killed child may start before the old one has ended, isolated
  // from all that the old one can write to. The old one's end is reported as usual.
  std::function<bool(const child_spec&)> abandon = [](const child_spec&) { return false; };
  // A retired child has ended for good.
  std::function<void(const child_spec&)> retired = [](const child_spec&) {};
  std::function<time_point()> now;
  std::function<epoch_id(process_id)> next_incarnation; // grows with every incarnation of a process
  std::chrono::milliseconds kill_after{5000}; // from SIGTERM to SIGKILL when a child is stopped
  // From the loss of a child's link to SIGKILL: a healthy child reconnects within milliseconds.
  std::chrono::milliseconds silence_max{300};
  // Whether the process waited for a CPU since the last call. Then it is not killed: its next
  // incarnation would wait too, and restarts count. Applies for `starvation_max`.
  std::function<bool(std::int32_t pid)> is_starved = [](std::int32_t) { return false; };
  std::chrono::milliseconds starvation_max{10'000};
  // Time for an adopted child to connect: it lost its link to the previous supervisor and retries
  // by itself.
  std::chrono::milliseconds adoption_max{5000};
  // How long a killed child may remain (in a system call that does not return) before it is
  // abandoned.
  std::chrono::milliseconds fence_max{10'000};
};

//   waiting --adopt--> silent (see below)
//   waiting --start--> starting --status(ready)--> running
//      ^                | |   ^                      |   |
//      |                | |   +-----peer_up-----+    |   |
//      |                | +-----peer_down----> silent <--+ peer_down
//      |           exit |                       | silence_max, not starved: SIGKILL, then exit
//      |  back-off      v                       v    | exit
//      +------------- backing_off <------------------+
//                         | one restart too many within the period
//                         v
//                      given_up  -> escalate
//   any --SIGKILL, and no exit for fence_max--> backing_off: old incarnation is fenced off
//   any --drain--> stopping --exit--> stopped      (children in reverse order, one after the other)
//   any --a sibling ended, by strategy--> stopping --exit--> backing_off, started in order
//   any --not wanted any more--> stopping --exit--> retired, removed
//
// One elsewhere:  waiting --peer_up--> starting --status(ready)--> running
//                    ^                     |                          |
//                    +------peer_down------+--------------------------+
enum class child_phase : std::uint8_t {
  waiting,
  starting,
  running,
  silent,
  backing_off,
  given_up,
  stopping,
  stopped
};

struct child {
  child_spec spec;
  schedule::retry_policy policy;
  child_phase phase = child_phase::waiting;
  epoch_id incarnation;
  std::int32_t pid = 0;
  std::optional<time_point> ready_at; // of this incarnation
  time_point due{}; // backing_off: when to start; starting, silent, stopping: when to kill
  time_point silent_since{};
  std::optional<time_point> killed_at; // first kill of this incarnation
  status last;                         // as reported by the child or observed here
  bool is_unreported = false;          // `last` was not reported yet
  std::uint32_t recent = 0;            // restarts within the period, as last reported
  bool is_retiring = false;            // stopping for good
  bool is_wanted_again = false;        // it is wanted again after its end
};

// An abandoned incarnation.
struct unkillable_process {
  std::string name;
  process_id process;
  epoch_id incarnation;
  std::int32_t pid = 0;
};

struct supervisor_state {
  static inline const char* name = "supervisor";
  supervisor_config config;
  std::vector<child> children; // in start order
  std::map<process_id, child*> by_process;
  std::vector<child*> unreported;
  std::vector<unkillable_process> unkillable; // each costs a restart: bounded by the intensity
  bool is_stopping = false;
};

supervisor_actor::behavior_type
supervisor(supervisor_actor::stateful_pointer<supervisor_state> self, supervisor_config config);

} // namespace baton::actors
