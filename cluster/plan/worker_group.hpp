// A worker that is several processes (docs/decisions/0058-worker-groups.md): its ranks, which begin
// and end together. The process that runs this is the one that the root supervises.
//
//   running --rank 0 exits with 0, or any other rank does--> leaving --all have ended--> over
//   running --any rank ends otherwise--> over (SIGKILL to the others)
//   leaving --farewell_max--> over (SIGKILL to the others)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace baton::cluster {

struct worker_group {
  std::uint32_t ranks = 1;
  std::string parallel; // "pp", "tp", "pptp": whom rank 0 hands a batch on to
  std::string run_id;   // TORCHELASTIC_RUN_ID
  std::uint32_t omp_num_threads = 1;
};

// Runs the ranks until they are over; SIGTERM goes on to rank 0. What this process's environment
// has is theirs as well, with torchrun's on top. Returns the exit status; a signal that ended a
// rank ends this process too. Called in a process of one thread. A rank dies with this process.
int run_group(const worker_group& group, const std::vector<std::string>& command);

// Becomes the command. Returns only if it cannot be run: says so, as the log's last line.
int become_command(const std::vector<std::string>& command);

} // namespace baton::cluster
