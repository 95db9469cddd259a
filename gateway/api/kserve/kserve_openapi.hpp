// Schemas of the KServe v2 bodies in /openapi.json. Used by openapi.cpp only.
#pragma once

#include "gateway/config/config.hpp"

#include <nlohmann/json.hpp>

namespace baton::gateway {

// `known`: schemas of the sampling parameters, by name.
nlohmann::ordered_json kserve_generate_schema(const nlohmann::ordered_json& known,
                                              const gateway_config& config);
nlohmann::ordered_json kserve_infer_schema(const nlohmann::ordered_json& known,
                                           const gateway_config& config);
nlohmann::ordered_json kserve_index_schema();
nlohmann::ordered_json kserve_load_schema();
nlohmann::ordered_json kserve_error_schema();

} // namespace baton::gateway
