// Converts requests to Anthropic's Messages API to typed requests: the same conversation, tools and
// sampling as a chat's. Pure. Unsupported fields are refused by name; docs/apis/anthropic.md lists
// them.
#pragma once

#include "gateway/api/openai/request/openai_request.hpp"
#include "gateway/config/config.hpp"
#include "gateway/request/openapi_schema.hpp"
#include "schema/result.hpp"

#include <string_view>

namespace baton::gateway {

// POST /v1/messages. Errors: invalid_request, invalid_value, unsupported_parameter, with param.
result<openai_generate> parse_anthropic(std::string_view body, const request_limits& limits);

// POST /v1/messages/count_tokens: the fields that make the prompt.
result<tokenize_call> parse_anthropic_count(std::string_view body, const request_limits& limits);

// The schemas of both bodies, for /openapi.json.
nlohmann::ordered_json anthropic_schema(const gateway_config& config);
nlohmann::ordered_json anthropic_count_schema(const gateway_config& config);

} // namespace baton::gateway
