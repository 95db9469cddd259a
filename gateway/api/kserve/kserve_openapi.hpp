// What /openapi.json says of the bodies of the KServe v2 routes. Used by openapi.cpp alone.
#pragma once

#include "gateway/config/config.hpp"

#include <nlohmann/json.hpp>

namespace baton::gateway {

// `known`: what parameters of sampling take, by name.
nlohmann::ordered_json kserve_generate_schema(const nlohmann::ordered_json& known,
                                              const gateway_config& config);
nlohmann::ordered_json kserve_infer_schema(const nlohmann::ordered_json& known,
                                           const gateway_config& config);
nlohmann::ordered_json kserve_index_schema();
nlohmann::ordered_json kserve_load_schema();
nlohmann::ordered_json kserve_error_schema();

} // namespace baton::gateway
