// A model of TorchServe that has a handler, as a worker model: its model-config.yaml's settings,
// and the [[workers]] table that is made of them. Pure.
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

// What is not said is nothing.
struct torchserve_settings {
  std::optional<std::uint32_t> workers, batch_size, job_queue_size;
  std::optional<std::uint32_t> max_batch_delay;                   // ms
  std::optional<std::uint32_t> response_timeout, startup_timeout; // s
  bool use_job_ticket = false;
  // None: a worker is one process, and its level is nothing.
  parallel_type parallel = parallel_type::none;
  std::optional<std::uint32_t> parallel_level, omp_num_threads;
  device_kind device_type = device_kind::automatic;
  std::optional<std::vector<std::uint32_t>> device_ids;
  std::vector<std::string> notes; // what is left out, or means something else here
};

// Of a model-config.yaml; of nothing if the text is empty. Errors: bad_config, with the key: a
// value is none, or means what a worker here cannot do.
result<torchserve_settings> read_torchserve_settings(std::string_view yaml);

struct torchserve_worker {
  std::string name, version;
  std::vector<std::string> command;
  torchserve_settings settings;
};
std::string worker_table(const torchserve_worker& of);

} // namespace baton::cluster
