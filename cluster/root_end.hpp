// How `cluster up` ended, for whoever started it: 0 is said only if every stream ended by itself
// and every process as it was asked to. systemd's Restart=on-failure and scripts go by it.
#pragma once

#include <string>

namespace baton::cluster {

// It could not begin, or was asked to end, or failed, before all were ready.
inline constexpr int exit_not_up = 1;
// Open streams were cut: the grace was over, it was asked again, or a gateway was lost meanwhile.
inline constexpr int exit_streams_cut = 4;
// A process had been given up, or did not end as it was asked to: it crashed or had to be killed.
// An agent ends with it as well, of its shards.
inline constexpr int exit_process_failed = 5;

struct root_end {
  int status = 0;
  std::string why; // in words, if it is not 0
};

// The first of these that is so is the status; all of them are told.
inline root_end end_of(bool came_up, const std::string& failed, const std::string& cut) {
  root_end end;
  end.why = failed;
  if (!cut.empty())
    end.why += (end.why.empty() ? "" : "; ") + cut;
  if (!came_up)
    end.status = exit_not_up;
  else if (!failed.empty())
    end.status = exit_process_failed;
  else if (!cut.empty())
    end.status = exit_streams_cut;
  return end;
}

} // namespace baton::cluster
