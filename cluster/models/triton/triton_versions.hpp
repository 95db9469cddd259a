// The versions of a model that version_policy of its config.pbtxt chooses. Pure.
// https://github.com/triton-inference-server/server/blob/main/docs/user_guide/
// model_configuration.md#version-policy
#pragma once

#include "gateway/state/worker_facts.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace baton::cluster {

// `config`: text of config.pbtxt; `model`: for error messages. Errors: bad_config.
result<gateway::version_policy> read_version_policy(const std::string& config,
                                                    const std::string& model);
// As [[workers]] spells it (config_workers.cpp).
std::string policy_text(const gateway::version_policy& policy);

// Chooses from the existing versions; input and output ascend. Errors: bad_config.
result<std::vector<std::uint32_t>> chosen_versions(const std::string& config,
                                                   const std::vector<std::uint32_t>& there,
                                                   const std::string& model);

} // namespace baton::cluster
