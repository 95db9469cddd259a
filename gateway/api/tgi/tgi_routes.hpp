// The routes of text-generation-inference's API, and its part of those that it shares with vLLM.
// They read the gateway's state.
#pragma once

#include "gateway/api/openai/openai_request.hpp"
#include "gateway/request/route.hpp"

#include <optional>
#include <span>

namespace baton::gateway {

extern const api_family tgi_family;
std::span<const route_row> tgi_routes() noexcept;

// POST /generate with a body of TGI's.
api_call generate_tgi(const http_call& call, gateway_state& facts);
// POST /tokenize; nothing if the body is vLLM's.
std::optional<api_call> tokenize_tgi(const http_call& call, gateway_state& facts);
message_call answer_tgi(tokenize_call call);

// The schemas of the bodies, for /openapi.json.
nlohmann::ordered_json tgi_body_schema(const gateway_config& config);
nlohmann::ordered_json tgi_tokenize_schema();

} // namespace baton::gateway
