// Builds the template's input from a conversation with tool calls. If the template supports tools,
// the input is as in Hugging Face's apply_chat_template; otherwise plain messages in Hermes'
// format. Called by the tokenizer actor; pure.
#pragma once

#include "runtime/text/stream/call_style.hpp"
#include "runtime/text/template/chat_template.hpp"

namespace baton::text {

// Fills `messages` and `tools` of `to`. `tools` and each message's `tool_calls` are JSON arrays, or
// empty. Errors: invalid_value with param "tools" or "messages" (invalid JSON, or nested too
// deeply).
result<void> put_conversation(const chat_prompt& chat, std::string_view tools,
                              const call_style& style, template_input& to);

// Fills the request's other options: variables, documents, time, and whether the last message stays
// open. Errors: invalid_value with param "chat_template_kwargs" or "documents" (JSON of another
// kind, nested too deeply, or documents that `of` does not read).
result<void> put_options(const template_options& options, const chat_template& of,
                         template_input& to);

} // namespace baton::text
