// How `cluster up` ended. The status is 0 only if every stream ended by itself and every process
// stopped as requested. systemd's Restart=on-failure and scripts depend on it.
#pragma once

#include "cluster/files/exit_status.hpp"

#include <string>

namespace baton::cluster {

struct root_end {
  int status = 0;
  std::string why; // explains a status other than 0
};

// The first matching cause sets the status; `why` has all of them. If the cluster did not come up
// because a process cannot start, the status is that process's.
inline root_end end_of(bool came_up, const std::string& failed, const std::string& cut) {
  root_end end;
  end.why = failed;
  if (!cut.empty())
    end.why += (end.why.empty() ? "" : "; ") + cut;
  if (!came_up)
    end.status = is_permanent_reason(failed) ? exit_permanent : exit_failed;
  else if (!failed.empty())
    end.status = exit_process_failed;
  else if (!cut.empty())
    end.status = exit_streams_cut;
  return end;
}

} // namespace baton::cluster
