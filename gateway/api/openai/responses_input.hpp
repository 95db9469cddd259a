// `input` of the Responses API as a conversation: a text, or items (messages, calls of functions
// and what they gave). Used by responses_request.cpp. Pure; the first mistake is kept in the
// reader.
#pragma once

#include "gateway/api/openai/openai_request.hpp"
#include "gateway/base/json_reader.hpp"

namespace baton::gateway {

chat_prompt read_input(field_reader& fields, const request_limits& limits);

// An error of a reader of chats, with the names that a client of this API knows.
error in_response_words(error e);

} // namespace baton::gateway
