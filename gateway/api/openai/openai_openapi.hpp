// The schemas of bodies of OpenAI's routes, and of vLLM's, for /openapi.json. The fields are those
// that the readers of the bodies ask for. Pure.
#pragma once

#include "gateway/config/config.hpp"
#include "gateway/request/openapi_schema.hpp"

namespace baton::gateway {

// The schemas of the sampling parameters, by name.
nlohmann::ordered_json sampling_schemas(const request_limits& limits);
// The schemas of the other fields of bodies, by name.
nlohmann::ordered_json body_schemas(const request_limits& limits);

nlohmann::ordered_json chat_schema(const gateway_config& config);
nlohmann::ordered_json completions_schema(const gateway_config& config);
nlohmann::ordered_json embeddings_schema(const gateway_config& config);
nlohmann::ordered_json tokenize_schema(const gateway_config& config);
nlohmann::ordered_json detokenize_schema(const gateway_config& config);
nlohmann::ordered_json openai_error_schema();

} // namespace baton::gateway
