// Assigns the machine's GPUs to workers as TorchServe does: processes of all models take them in
// rotation; device_ids restricts a model to its own list. A worker with several processes or
// devices takes the next parallel_level ones (docs/decisions/0059-devices-of-workers.md).
#pragma once

#include "cluster/config/config.hpp"

#include <optional>
#include <string>
#include <vector>

namespace baton::cluster {

// The GPUs in CUDA_VISIBLE_DEVICES, or all with a device file if it is not set.
std::vector<std::string> devices_here();
// Parses the value of that variable. Pure.
std::vector<std::string> devices_named(std::string_view variable);

// The GPUs of this machine; their numbers for processes are indices into `names`.
struct machine_gpus {
  std::vector<std::string> names;      // as CUDA_VISIBLE_DEVICES lists them
  std::vector<std::uint32_t> rotation; // for rotation: not used by a shard
};
// `here`: devices_here(). Pure, like all functions below.
machine_gpus gpus_for_workers(const cluster_config& config, std::vector<std::string> here);

// The position of one worker among the others.
struct worker_position {
  std::string process;              // its name, for messages
  std::uint32_t number = 0;         // within its model
  std::uint32_t rotation_index = 0; // among workers of all models that use the rotation
};
// `slot`: of the worker (worker_slots.hpp). Slots of repository and store models follow those of
// nodes.toml, so a restarted worker keeps its GPU.
worker_position position_of(const cluster_config& config, std::uint32_t slot,
                            const std::string& process);

struct worker_gpus {
  std::vector<std::uint32_t> numbers;  // empty: it has no GPU
  std::optional<std::string> visible;  // CUDA_VISIBLE_DEVICES; nothing: unchanged
  std::optional<std::uint32_t> gpu_id; // as numbered in the process; in a group, of rank 0
  bool is_process_choice = false;      // the process chooses its devices
  std::string text() const;            // "GPU 0, 1", "CPU", "its own"
};
// Errors: start_failed (no such GPU on this machine; names the worker and the GPU).
result<worker_gpus> gpus_of(const worker_config& worker, const worker_position& who,
                            const machine_gpus& machine);

// The GPUs of all [[workers]] that start, by slot. Errors: those of the first that cannot start.
result<std::vector<worker_gpus>> gpus_of_workers(const cluster_config& config,
                                                 const machine_gpus& machine);

} // namespace baton::cluster
