// A TorchServe model with a handler, as a worker model: the settings of its model-config.yaml, and
// the [[workers]] table made from them. Pure.
// https://github.com/pytorch/serve/blob/master/model-archiver/README.md#config-file
#pragma once

#include "cluster/config/config.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::cluster {

// Settings that the file omits stay empty.
struct torchserve_settings {
  std::optional<std::uint32_t> workers, batch_size, job_queue_size;
  std::optional<std::uint32_t> max_batch_delay;                   // ms
  std::optional<std::uint32_t> response_timeout, startup_timeout; // s
  bool use_job_ticket = false;
  // none: a worker is one process, and `parallel_level` has no effect.
  parallel_type parallel = parallel_type::none;
  std::optional<std::uint32_t> parallel_level, omp_num_threads;
  device_kind device_type = device_kind::automatic;
  std::optional<std::vector<std::uint32_t>> device_ids;
  std::vector<std::string> notes; // what is left out, or has another meaning here
};

// Parses a model-config.yaml; an empty text gives the defaults. Errors: bad_config, with the key
// (an invalid value, or a feature that workers here do not have).
result<torchserve_settings> read_torchserve_settings(std::string_view yaml);

struct torchserve_worker {
  std::string name, version;
  std::vector<std::string> command;
  torchserve_settings settings;
};
std::string worker_table(const torchserve_worker& of);

} // namespace baton::cluster
