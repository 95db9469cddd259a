// A worker of several processes (docs/decisions/0058-worker-groups.md): ranks that start and end
// together. The root supervises the process that calls run_group.
//
//   running --any rank exits with 0--> leaving --all have ended--> over
//   running --any rank ends otherwise--> over (SIGKILL to the others)
//   leaving --farewell_max--> over (SIGKILL to the others)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace baton::cluster {

struct worker_group {
  std::uint32_t ranks = 1;
  std::string parallel; // "pp", "tp", "pptp": where rank 0 passes a batch
  std::string run_id;   // TORCHELASTIC_RUN_ID
  std::uint32_t omp_num_threads = 1;
};

// Runs the ranks until all have ended; forwards SIGTERM to rank 0. Ranks inherit the environment,
// plus torchrun's variables. Returns the exit status; a signal that ended a rank ends this process
// too. Requires: a single thread. Ranks die with this process.
int run_group(const worker_group& group, const std::vector<std::string>& command);

// Executes the command. Returns only if that fails, with the error as the log's last line.
int become_command(const std::vector<std::string>& command);

} // namespace baton::cluster
