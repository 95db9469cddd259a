// Schemas of the KServe v2 bodies in /openapi.json. Pure.
#pragma once

#include "gateway/config/config.hpp"

#include <nlohmann/json.hpp>

namespace baton::gateway {

nlohmann::ordered_json kserve_generate_schema(const gateway_config& config);
nlohmann::ordered_json kserve_infer_schema(const gateway_config& config);
nlohmann::ordered_json kserve_index_schema(const gateway_config& config);
nlohmann::ordered_json kserve_load_schema(const gateway_config& config);
nlohmann::ordered_json kserve_error_schema();

} // namespace baton::gateway
