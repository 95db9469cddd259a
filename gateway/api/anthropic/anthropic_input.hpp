// The conversation of a request to Anthropic's API: `system` and `messages`, as a chat. Used by
// anthropic_request.cpp. Pure.
//
// Texts of one message, and messages of one role that follow each other, are joined by newlines.
// Each `tool_result` becomes a message of the role `tool`.
#pragma once

#include "gateway/config/config.hpp"
#include "gateway/request/json_reader.hpp"
#include "schema/messages.hpp"

#include <string>
#include <string_view>

namespace baton::gateway {

struct anthropic_input {
  chat_prompt chat;
  bool continues_final = false; // the last message is the beginning of the answer
};

// Reads `system` and `messages`. `source`: the same body, with members in the client's order. The
// reader keeps the first error.
anthropic_input read_anthropic_input(field_reader& fields, const nlohmann::ordered_json& source,
                                     const request_limits& limits);

// The ids of calls have this lead in this API alone: templates get and make the rest.
inline constexpr std::string_view tool_use_lead = "toolu_";

} // namespace baton::gateway
