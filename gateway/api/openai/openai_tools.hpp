// OpenAI's tools in a chat request: what may be called, what must be, and the calls of earlier
// messages. Used by openai_fields.cpp; settle_calls by those who know the model. Pure.
#pragma once

#include "gateway/api/openai/openai_request.hpp"
#include "gateway/base/json_reader.hpp"

namespace baton::gateway {

// `tools`, `tool_choice` and `parallel_tool_calls`. `source` is the text of the object that the
// fields are of: a schema's members keep their order. Nothing if nothing may be called. The first
// mistake is kept in the reader.
std::optional<asked_tools> read_tools(field_reader& fields, std::string_view source,
                                      const request_limits& limits);

// `tool_calls` of an assistant's message and `tool_call_id` of a tool's. Requires: the role is set.
// Errors name them from the root by `path`: "messages[2].".
void read_calls_of(field_reader& message, const std::string& path, const request_limits& limits,
                   chat_message& out);

// How the answer of a model with this format is read, and the grammar that it is drawn under, if
// the request promises more than a model keeps by itself: a call that must come, arguments that
// their schema holds for, one call alone. Errors: unsupported_parameter, invalid_value (param
// "tools"): a schema that cannot be kept.
result<void> settle_calls(openai_generate& call, call_format format);

} // namespace baton::gateway
