// A request's wishes about the model's reasoning: on, off, an effort, a bound. They are read from
// each API's fields, and applied once the model is known.
#pragma once

#include "gateway/api/openai/request/openai_request.hpp"
#include "gateway/request/json_reader.hpp"

namespace baton::gateway {

// A chat's reasoning_effort (OpenAI), include_reasoning and thinking_token_budget (vLLM). The
// reader keeps the first error.
void read_reasoning(field_reader& fields, openai_generate& out);

// "none", "minimal", "low", "medium", "high", "xhigh"; "none" turns it off. Other texts are refused
// under `name`.
void ask_effort(field_reader& fields, std::string_view name, asked_reasoning& out);

// The wishes as variables of a template (chat_template_kwargs): a JSON object, or empty.
void put_reasoning_kwargs(const asked_reasoning& asked, std::string& kwargs);

// For callers that know the model. Requires: a chat. Errors: unsupported_parameter (the model does
// not reason, and the request asks for it), with the parameter's name in `asked_reasoning`.
result<void> settle_reasoning(openai_generate& call, const model_card& card);

} // namespace baton::gateway
