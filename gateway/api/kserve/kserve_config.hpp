// Triton's configuration of a worker model as Triton tells it: what config.pbtxt says, with the
// defaults of what it does not say and what Triton makes of it. Pure.
#pragma once

#include "gateway/metrics/worker_load.hpp"

#include <nlohmann/json.hpp>

namespace baton::gateway {

// `said`: of [[workers]].triton_config, checked (cluster/config/triton_config.hpp). What other keys
// of
// [[workers]] say goes before it: `told` has it in the words of the same fields.
nlohmann::ordered_json whole_config(nlohmann::ordered_json said, const nlohmann::ordered_json& told,
                                    std::size_t processes);
// As metadata have it: the platform, or the backend where it has none.
std::string platform_told(const worker_facts& facts);

} // namespace baton::gateway
