// The input of a supervisor: its children, and the functions that control their processes.
#pragma once

#include "actors/supervision/supervised_children.hpp"
#include "schema/result.hpp"

#include <functional>

namespace baton::actors {

// A child left running by another supervisor.
struct left_child {
  std::int32_t pid = 0;
  incarnation_id incarnation;
};

// A child process ended; sent by the code that waits for it (cluster/child_watch).
struct child_exited {
  process_id process;
  incarnation_id incarnation;
  std::string how;           // "killed by signal 9", "exit status 1"
  bool is_permanent = false; // the child reported that a restart cannot help (bad configuration...)
  bool has_failed = false;   // an unexpected end, even if it was asked to end
  std::string name = {};     // of the child
};

struct supervisor_config {
  std::string name;                 // as named in its children's status: "root", "agent-a"
  std::vector<child_spec> children; // in start order
  restart_strategy strategy = restart_strategy::one_for_one;
  // The child's process, if it already runs; called once per child. Its end is reported.
  std::function<std::optional<left_child>(const child_spec&)> adopt;
  std::function<result<std::int32_t>(const child_spec&, incarnation_id)> start; // returns the pid
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
  std::function<incarnation_id(process_id)>
      next_incarnation;                       // grows with every incarnation of a process
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

} // namespace baton::actors
