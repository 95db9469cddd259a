// The routes of OpenAI's API, and what other APIs share with them. They read the gateway's state.
#pragma once

#include "gateway/api/openai/request/openai_request.hpp"
#include "gateway/request/route.hpp"

#include <span>
#include <string_view>

namespace baton::gateway {

extern const api_family openai_family;
std::span<const route_row> openai_routes() noexcept;

// The requests of `call`, moved out of it. The caller sets the writer and the family.
generation_call open_prompts(openai_generate& call);
message_call tokenize_message(tokenize_call& call);

// Applies the served model's format of tool calls to the request. Errors: of finding the model.
result<void> settle_answer(openai_generate& call, const gateway_state& facts);
result<void> settle_answer(openai_generate& call, const model_card& card);

// Reads the position from which a broken stream continues, if the request has Last-Event-ID. For
// APIs whose streams have one answer, and positions that count text. Errors: invalid_value (not a
// stream, or a place of another API).
result<void> resume_answer(const http_call& call, openai_generate& asked);

// Refuses to resume a stream, for routes whose events have no ids. Errors: unsupported_parameter.
result<void> check_is_new(const http_call& call);

// TGI's clients must name a model, and its server ignores the name: "dummy", "tgi"
// (gateway.placeholder_models). If one model alone is served, such a name stands for it.
bool is_placeholder(const gateway_state& facts, std::string_view model);

} // namespace baton::gateway
