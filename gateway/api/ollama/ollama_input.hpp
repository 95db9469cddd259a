// The conversation of a request to Ollama's API: `messages` and `tools`, as a chat. Used by
// ollama_request.cpp. Pure.
//
// Ollama's calls may have no ids. Here each gets one, and so does the message of its result: that
// of the first open call with its `tool_name`, else of the first open call.
#pragma once

#include "gateway/api/openai/request/openai_request.hpp"
#include "gateway/config/config.hpp"
#include "gateway/request/json_reader.hpp"
#include "schema/messages.hpp"

#include <optional>
#include <string_view>

namespace baton::gateway {

// Reads `messages`; empty if there are none. `source`: the same body, with members in the client's
// order. The reader keeps the first error.
chat_prompt read_ollama_messages(field_reader& fields, const nlohmann::ordered_json& source,
                                 const request_limits& limits);

// Reads `tools`. Nothing if there are none.
std::optional<asked_tools> read_ollama_tools(field_reader& fields,
                                             const nlohmann::ordered_json& source,
                                             const request_limits& limits);

// Refuses `images`, by name, unless the list is empty.
void refuse_images(field_reader& fields);

} // namespace baton::gateway
