// Converts `input` of the Responses API to a conversation: a text, or items (messages, function
// calls and their results). Used by responses_request.cpp. Pure; the reader keeps the first error.
#pragma once

#include "gateway/api/openai/request/openai_request.hpp"
#include "gateway/request/json_reader.hpp"

#include <string>
#include <string_view>

namespace baton::gateway {

chat_prompt read_input(field_reader& fields, const request_limits& limits);

// The `encrypted_content` of an item of reasoning, for clients that send back nothing else of it
// (Codex). It is encoded, not secret: the client has the text as well.
std::string encrypted_content(std::string_view reasoning);

// Renames the fields in a chat reader's error to the names of this API.
error in_response_names(error e);

} // namespace baton::gateway
