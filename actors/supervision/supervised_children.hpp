// The children of a supervisor: their phases, and which of their states are unreported. Pure.
#pragma once

#include "actors/supervision/restart.hpp"
#include "runtime/schedule/tickets/retry_policy.hpp"
#include "schema/messages.hpp"

#include <chrono>
#include <map>
#include <optional>
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
  incarnation_id incarnation{};
  std::int32_t pid = 0;
  std::optional<time_point> ready_at{}; // of this incarnation
  time_point due{}; // backing_off: when to start; starting, silent, stopping: when to kill
  time_point silent_since{};
  std::optional<time_point> killed_at{}; // first kill of this incarnation
  status last{};                         // as reported by the child or observed here
  bool is_unreported = false;            // `last` was not reported yet
  std::uint32_t recent = 0;              // restarts within the period, as last reported
  bool is_retiring = false;              // stopping for good
  bool is_wanted_again = false;          // it is wanted again after its end
};

// Addresses of children are valid until the next `add` or `remove`.
class supervised_children {
public:
  // A new child, the last in the start order.
  child& add(const child_spec& spec);
  void remove(process_id process);

  std::vector<child>& all() noexcept { return children_; } // in start order
  // Each is null if there is no such child.
  child* find(process_id process);
  child* find(process_id process, incarnation_id incarnation);
  child* find_elsewhere(process_id process); // one on another machine

  // The child's state, to be reported.
  void record(child& c, status now);
  void record(child& c, phase p, std::string reason);
  // The children with unreported states, in the order of their changes.
  std::vector<child*> take_unreported();

private:
  void reindex();

  std::vector<child> children_;
  std::map<process_id, child*> by_process_;
  std::vector<child*> unreported_;
};

} // namespace baton::actors
