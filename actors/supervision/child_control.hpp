// The steps in the life of one child: started, adopted, silent, stopped, killed, restarted after a
// pause or given up. Which of them is due, and the effects on siblings, are the supervisor's.
#pragma once

#include "actors/supervision/supervisor_config.hpp"

#include <chrono>
#include <string>

namespace baton::actors {

class child_control {
public:
  // Both must outlive this object. Changes are recorded in `children`.
  child_control(const supervisor_config& config, supervised_children& children)
      : config_(config), children_(children) {}

  // Starts the next incarnation, or backs off.
  void start(child& c);
  // Adopts a process that already runs, or starts one. A child elsewhere is awaited.
  void adopt_or_start(child& c);
  // The process has ended: restarts it after a pause, or gives it up.
  void back_off_or_give_up(child& c, const std::string& how);
  void give_up(child& c, std::string reason);
  // Its link is lost: it may answer again within `patience`.
  void fall_silent(child& c, std::chrono::milliseconds patience);
  // Its patience has ended: kills it, unless it waits for a CPU.
  void end_silence(child& c);
  // A child elsewhere that is not there.
  void await(child& c, phase p, std::string reason);
  void ask_to_stop(child& c);
  // Its exit is handled as usual. A stopped or hanging process cannot prevent it.
  void kill(child& c);
  // Killed long ago, and still not ended.
  bool is_undying(const child& c) const;
  // The status to report.
  status status_of(child& c) const;

private:
  bool adopt(child& c);

  const supervisor_config& config_;
  supervised_children& children_;
};

} // namespace baton::actors
