// OpenAI's tools in a chat request: permitted calls, required calls, and calls of earlier messages.
// openai_fields.cpp uses it; settle_calls is for callers that know the model. Pure.
#pragma once

#include "gateway/api/openai/request/openai_request.hpp"
#include "gateway/request/json_reader.hpp"

namespace baton::gateway {

// Reads `tools`, `tool_choice` and `parallel_tool_calls`. `source` is the text of the fields'
// object: a schema's members keep their order. Nothing if no call is permitted. The reader keeps
// the first error.
std::optional<asked_tools> read_tools(field_reader& fields, std::string_view source,
                                      const request_limits& limits);

// Reads `tool_calls` of an assistant message and `tool_call_id` of a tool message. Requires: the
// role is set. Errors use `path` as prefix: "messages[2].".
void read_calls_of(field_reader& message, const std::string& path, const request_limits& limits,
                   chat_message& out);

// Appends calls to earlier ones of the same message. Both are texts of JSON arrays of at least one
// call; `all` may also be empty.
void add_calls(std::string& all, std::string_view more);

// Sets how to parse a model's answer with this format. Adds a grammar if the request demands more
// than a model guarantees: a required call, arguments that satisfy their schema, a single call.
// Errors: unsupported_parameter, invalid_value (param "tools"): the schema cannot be enforced.
result<void> settle_calls(openai_generate& call, call_format format);

} // namespace baton::gateway
