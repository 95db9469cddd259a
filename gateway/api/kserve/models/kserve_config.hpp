// The configuration of a worker model in Triton's format: config.pbtxt, completed with Triton's
// defaults and derived values. Pure.
#pragma once

#include "gateway/metrics/worker_load.hpp"

#include <nlohmann/json.hpp>

namespace baton::gateway {

// `given`: [[workers]].triton_config, checked (cluster/config/readers/triton_config.hpp). `known`
// has the other keys of [[workers]], as the same fields; it has priority.
nlohmann::ordered_json whole_config(nlohmann::ordered_json given,
                                    const nlohmann::ordered_json& known, std::size_t processes);
// The platform field of the metadata: the platform, or the backend if there is none.
std::string reported_platform(const worker_facts& facts);

} // namespace baton::gateway
