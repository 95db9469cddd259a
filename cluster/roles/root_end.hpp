// How `cluster up` ended, for whoever started it: 0 is said only if every stream ended by itself
// and every process as it was asked to. systemd's Restart=on-failure and scripts go by it.
#pragma once

#include "cluster/files/exit_status.hpp"

#include <string>

namespace baton::cluster {

struct root_end {
  int status = 0;
  std::string why; // in words, if it is not 0
};

// The first of these that is so is the status; all of them are told. One that did not come up
// because a process of it cannot start ends as that process did.
inline root_end end_of(bool came_up, const std::string& failed, const std::string& cut) {
  root_end end;
  end.why = failed;
  if (!cut.empty())
    end.why += (end.why.empty() ? "" : "; ") + cut;
  if (!came_up)
    end.status = says_permanent(failed) ? exit_permanent : exit_failed;
  else if (!failed.empty())
    end.status = exit_process_failed;
  else if (!cut.empty())
    end.status = exit_streams_cut;
  return end;
}

} // namespace baton::cluster
