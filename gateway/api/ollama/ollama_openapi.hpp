// The schemas of Ollama's bodies and errors, for /openapi.json. Pure.
#pragma once

#include "gateway/api/ollama/ollama_request.hpp"
#include "gateway/config/config.hpp"

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <set>
#include <string>

namespace baton::gateway {

// The names of all fields that the route reads.
std::set<std::string, std::less<>> fields_of_ollama(ollama_route route,
                                                    const request_limits& limits);

nlohmann::ordered_json ollama_chat_schema(const gateway_config& config);
nlohmann::ordered_json ollama_generate_schema(const gateway_config& config);
nlohmann::ordered_json ollama_embed_schema(const gateway_config& config);
nlohmann::ordered_json ollama_embeddings_schema(const gateway_config& config);
// Calls about models.
nlohmann::ordered_json ollama_named_schema(const gateway_config& config);
nlohmann::ordered_json ollama_error_schema();

} // namespace baton::gateway
