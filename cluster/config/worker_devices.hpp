// Which of the machine's GPUs a worker has, as TorchServe deals them out: processes take them in
// turn, those of all models; where device_ids names some, the model's own. A worker of several
// processes or devices takes the next parallel_level ones
// (docs/decisions/0059-devices-of-workers.md).
#pragma once

#include "cluster/config/config.hpp"

#include <optional>
#include <string>
#include <vector>

namespace baton::cluster {

// Those that CUDA_VISIBLE_DEVICES leaves to this process, else all that have a device file.
std::vector<std::string> devices_here();
// The same of what the variable says. Pure.
std::vector<std::string> devices_named(std::string_view variable);

// Of this machine, as its processes count them: the number is the place in `names`.
struct machine_gpus {
  std::vector<std::string> names;   // in CUDA_VISIBLE_DEVICES's words
  std::vector<std::uint32_t> dealt; // that workers take in turn: no shard has them
};
// `here`: devices_here(). Pure, as all that follows.
machine_gpus gpus_for_workers(const cluster_config& config, std::vector<std::string> here);

// One worker among the others.
struct worker_turn {
  std::string process;      // its name, for messages
  std::uint32_t number = 0; // among the model's
  std::uint32_t turn = 0;   // among those of all models that take GPUs in turn
};
// `seat`: of the worker (worker_seats.hpp). Models of a repository or a store count on from the
// last seat of nodes.toml, so a worker that restarts keeps its GPU.
worker_turn turn_of(const cluster_config& config, std::uint32_t seat, const std::string& process);

struct worker_gpus {
  std::vector<std::uint32_t> numbers;  // none: it has no GPU
  std::optional<std::string> visible;  // CUDA_VISIBLE_DEVICES; nothing: it is left as it is
  std::optional<std::uint32_t> gpu_id; // as the process counts it; of a group rank 0's
  bool is_own_matter = false;          // the process takes what it likes
  std::string text() const;            // "GPU 0, 1", "CPU", "its own"
};
// Errors: start_failed (the machine has no such GPU; names the worker and the GPU).
result<worker_gpus> gpus_of(const worker_config& worker, const worker_turn& who,
                            const machine_gpus& machine);

// Of the [[workers]] all that start, in the order of their seats. Errors: of the first that cannot.
result<std::vector<worker_gpus>> gpus_of_workers(const cluster_config& config,
                                                 const machine_gpus& machine);

} // namespace baton::cluster
