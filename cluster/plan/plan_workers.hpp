// The worker models in the output of `cluster plan`. Pure.
#pragma once

#include "cluster/config/config.hpp"
#include "cluster/config/worker_devices.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace baton::cluster {

// Whether this machine has the GPUs and cores that [[workers]] need. Errors: start_failed,
// bad_config (names `file`, the worker and the missing device).
result<void> check_workers(const cluster_config& config, const std::string& file,
                           const machine_gpus& gpus, const machine_cores& cores);

// One line per [[workers]] table and per directory of models that change at run time; empty without
// these.
std::string workers_text(const cluster_config& config, const machine_gpus& gpus);

// The same as JSON: adds "workers", "model_repository" and "model_store", if present.
void add_workers(nlohmann::ordered_json& plan, const cluster_config& config,
                 const machine_gpus& gpus);

} // namespace baton::cluster
