// Assigns the incarnation of a process's next start. Links, heads and agents treat the process with
// the latest incarnation as the live one and ignore earlier ones (cluster/bus/link.hpp).
#pragma once

#include "cluster/files/run_dir.hpp"

#include <functional>
#include <mutex>

namespace baton::cluster {

// Returns the machine's clock in microseconds or the last value plus one, whichever is later. So
// incarnations stay monotonic even if the system clock is set back. The last value is stored in the
// run directory for the next process of this name. Only one process at a time has a name; different
// issuers never assign incarnations to the same process.
class incarnation_clock {
public:
  // `issuer`: "root", "agent-a". `clock`: wall_micros (process.hpp).
  incarnation_clock(run_dir dir, const std::string& issuer, std::function<std::uint64_t()> clock);

  // Later than every earlier value of this name, in any process. Thread-safe.
  incarnation_id next();

private:
  const run_dir dir_;
  const std::string file_;
  const std::function<std::uint64_t()> clock_;
  std::mutex mutex_;
  std::uint64_t last_ = 0;
};

} // namespace baton::cluster
