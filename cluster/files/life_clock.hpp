// Assigns the epoch of a process's next life. Links, heads and agents treat the process with the
// latest epoch as the living one and ignore earlier ones (cluster/bus/link.hpp).
#pragma once

#include "cluster/files/run_dir.hpp"

#include <functional>
#include <mutex>

namespace baton::cluster {

// The machine's clock in microseconds, or one more than the last that was given, whichever is
// later: a clock that was set back makes nobody older than who they follow. What was given last is
// noted in the run directory, for whoever gives them after this process. One process at a time has
// a name; those that it names differ from those of other givers by who gets them.
class life_clock {
public:
  // `giver`: "root", "agent-a". `clock`: wall_micros (process.hpp).
  life_clock(run_dir dir, const std::string& giver, std::function<std::uint64_t()> clock);

  // Later than all before, of any process here with this name. Any thread.
  epoch_id next();

private:
  const run_dir dir_;
  const std::string file_;
  const std::function<std::uint64_t()> clock_;
  std::mutex mutex_;
  std::uint64_t last_ = 0;
};

} // namespace baton::cluster
