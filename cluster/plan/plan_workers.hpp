// What `cluster plan` says of the models that are served beside the LLMs, or alone. Pure.
#pragma once

#include "cluster/config/config.hpp"
#include "cluster/config/worker_devices.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace baton::cluster {

// Whether this machine has the GPUs and cores that [[workers]] are to have. Errors: start_failed,
// bad_config (names `file`, the worker and what is not there).
result<void> check_workers(const cluster_config& config, const std::string& file,
                           const machine_gpus& gpus, const machine_cores& cores);

// A line for each of [[workers]], and for the directories whose models come and go; empty: there
// are none of all these.
std::string workers_text(const cluster_config& config, const machine_gpus& gpus);

// The same for scripts: "workers", "model_repository", "model_store", those that there are.
void add_workers(nlohmann::ordered_json& plan, const cluster_config& config,
                 const machine_gpus& gpus);

} // namespace baton::cluster
