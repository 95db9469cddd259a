// The supervisor of one process's children: takes over what another supervisor left, starts the
// others in order, restarts what dies within its intensity, stops them in reverse. Used by the root
// (gateway, head, agents) and by a node agent (its shards). Starting a process, killing it and the
// clock are given from outside, so that the same actor runs in simulation.
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
  node_id node;
  baton::role role = baton::role::shard;
  restart_intensity intensity;
  // On another machine, where others start it: it comes and goes as its link does, and says its own
  // epoch.
  bool is_elsewhere = false;
  // That it supervises itself and stops one after the other, each with `kill_after`, before it
  // ends: if it were killed meanwhile, nobody would stop them.
  std::uint32_t children = 0;
  // How long a life of it may take until it is ready; 0: as long as it takes.
  std::chrono::milliseconds startup_max{0};
  // How long it may bring to its end what it has when it alone is wanted no more; less than
  // `kill_after` counts as that.
  std::chrono::milliseconds retire_max{0};
};

// A child that another supervisor has left running.
struct left_child {
  std::int32_t pid = 0;
  epoch_id epoch;
};

// A child process ended; sent by whoever waits for it (cluster/child_watch).
struct child_exited {
  node_id node;
  epoch_id epoch;
  std::string how; // "killed by signal 9", "exit status 1"
  bool is_permanent =
      false; // it said itself that a restart cannot help (bad configuration, address in use)
  bool has_failed = false; // whoever asked it to end would not have expected this
  std::string name = {};   // of the child
};

// Who the children are from now on: the new ones are started; those that are not among them are
// asked to stop, and forgotten once they have. What befalls these, nobody shares.
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
  std::string name;                 // as its children's standing says it: "root", "agent-a"
  std::vector<child_spec> children; // in start order
  restart_strategy strategy = restart_strategy::one_for_one;
  // The one that runs already, if there is one; asked once for each child. Its end will be told.
  std::function<std::optional<left_child>(const child_spec&)> adopt;
  std::function<result<std::int32_t>(const child_spec&, epoch_id)> start; // gives the pid
  // SIGTERM, or SIGKILL; elsewhere a word to it, and nothing that could force it.
  std::function<void(const child_spec&, std::int32_t pid, bool force)> stop;
  // How those children stand that have changed; all of them, when a root has greeted.
  std::function<void(const std::vector<status>&)> changed;
  std::function<void(const status& failed)> escalate; // a child is beyond its intensity
  std::function<void()> stopped;                      // after drain: all children are gone
  // It was killed and has not ended: may its next life begin beside it? What it could still write
  // to, that must not get. Its end is told as any other, if it comes.
  std::function<bool(const child_spec&)> abandon = [](const child_spec&) { return false; };
  // One that is not wanted any more is gone, for good.
  std::function<void(const child_spec&)> retired = [](const child_spec&) {};
  std::function<time_point()> now;
  std::function<epoch_id(node_id)> next_epoch; // grows for every life of a node
  std::chrono::milliseconds kill_after{5000};  // from SIGTERM to SIGKILL when stopping a child
  // From the end of a child's link, which has been silent or fell, to SIGKILL: one that is well
  // greets again within milliseconds.
  std::chrono::milliseconds silence_max{300};
  // Whether, since this was last asked of it, it waited for a processor. Such a one does not hang:
  // killed, its next life would wait as well, and the restarts count. Until `starvation_max`.
  std::function<bool(std::int32_t pid)> is_starved = [](std::int32_t) { return false; };
  std::chrono::milliseconds starvation_max{10'000};
  // How long an adopted child may take to greet: its link to the supervisor of before has fallen,
  // it tries again by itself.
  std::chrono::milliseconds adoption_max{5000};
  // How long after SIGKILL a child may be there (in a call to the system that does not return)
  // until it is abandoned.
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
//   any --SIGKILL, and no exit for fence_max--> backing_off: fenced by its epoch and what it had
//   any --drain--> stopping --exit--> stopped      (children in reverse order, one after the other)
//   any --a sibling ended, by strategy--> stopping --exit--> backing_off, started in order
//   any --not wanted any more--> stopping --exit--> retired, forgotten
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
  epoch_id epoch;
  std::int32_t pid = 0;
  std::optional<time_point> ready_at; // of this life
  time_point due{}; // backing_off: when to start; starting, silent, stopping: when to kill
  time_point silent_since{};
  std::optional<time_point> killed_at; // this life, for the first time
  status last;                         // as the child said, or as we saw
  bool is_untold = false;              // `last`, yet
  std::uint32_t recent = 0;            // restarts within the period, as they were told
  bool is_retiring = false;            // stopping for good
  bool comes_back = false;             // it is wanted again meanwhile
};

// A life that was abandoned.
struct undead_life {
  std::string name;
  node_id node;
  epoch_id epoch;
  std::int32_t pid = 0;
};

struct supervisor_state {
  static inline const char* name = "supervisor";
  supervisor_config config;
  std::vector<child> children; // in start order
  std::map<node_id, child*> by_node;
  std::vector<child*> untold;
  std::vector<undead_life> undead; // each cost its child a restart: bounded by their intensity
  bool is_stopping = false;
};

supervisor_actor::behavior_type
supervisor(supervisor_actor::stateful_pointer<supervisor_state> self, supervisor_config config);

} // namespace baton::actors
