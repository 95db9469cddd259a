// What `cluster plan` says of the models that are served beside the LLMs, or alone. Pure.
#pragma once

#include "cluster/config.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace baton::cluster {

// A line for each of [[workers]], and for the directories whose models come and go; empty: there
// are none of all these.
std::string workers_text(const cluster_config& config);

// The same for scripts: "workers", "model_repository", "model_store", those that there are.
void add_workers(nlohmann::ordered_json& plan, const cluster_config& config);

} // namespace baton::cluster
