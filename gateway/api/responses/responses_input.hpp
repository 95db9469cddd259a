// Converts `input` of the Responses API to a conversation: a text, or items (messages, function
// calls and their results). Used by responses_request.cpp. Pure; the reader keeps the first error.
#pragma once

#include "gateway/api/openai/openai_request.hpp"
#include "gateway/request/json_reader.hpp"

namespace baton::gateway {

chat_prompt read_input(field_reader& fields, const request_limits& limits);

// Renames the fields in a chat reader's error to the names of this API.
error in_response_names(error e);

} // namespace baton::gateway
