// What a chat template is given of a conversation in which tools are called: as Hugging Face's
// apply_chat_template does, where the template knows of tools; else as plain messages in Hermes'
// format. Called by the tokenizer actor; pure.
#pragma once

#include "runtime/text/call_style.hpp"
#include "runtime/text/template/chat_template.hpp"

namespace baton::text {

// Fills `messages` and `tools` of `to`. `tools` and each message's `tool_calls` are JSON arrays, or
// empty. Errors: invalid_value (a text that is none, or nested too deep; param "tools" or
// "messages").
result<void> put_conversation(const chat_prompt& chat, std::string_view tools,
                              const call_style& style, template_input& to);

// Fills what the request says beside it: further variables, documents, the time, and whether the
// last message stays open. Errors: invalid_value (param "chat_template_kwargs" or "documents"): no
// JSON of that kind, nested too deep, or documents that `of` does not read.
result<void> put_options(const template_options& options, const chat_template& of,
                         template_input& to);

} // namespace baton::text
