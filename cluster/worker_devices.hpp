// Which of the machine's GPUs a worker of several processes or devices sees, as TorchServe deals
// them out: the first worker the first ones, the next worker the next ones, and from the first on.
#pragma once

#include "cluster/config.hpp"

#include <optional>
#include <string>
#include <vector>

namespace baton::cluster {

// CUDA_VISIBLE_DEVICES of the model's worker of that number; nothing: it is left as it is, because
// a single process takes the device that it likes, or the machine has not so many. `here`: the
// machine's, as this process may use them.
std::optional<std::string> visible_devices(const worker_config& worker, std::uint32_t number,
                                           const std::vector<std::string>& here);

// Those that CUDA_VISIBLE_DEVICES leaves to this process, else all that have a device file.
std::vector<std::string> devices_here();

} // namespace baton::cluster
