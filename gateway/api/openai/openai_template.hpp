// What a chat request says to the model's chat template beside messages and tools, as vLLM names
// it: chat_template_kwargs, documents, add_generation_prompt, continue_final_message. The template
// itself is the model's: a request cannot bring one. Used by openai_fields.cpp and
// openai_request.cpp. Pure.
#pragma once

#include "gateway/base/json_reader.hpp"
#include "schema/messages.hpp"

namespace baton::gateway {

struct template_fields {
  template_options options;
  bool add_generation_prompt = true;
};

// add_special_tokens, as vLLM has it: by default true for a text and false for a chat.
special_tokens read_special_tokens(field_reader& fields, bool is_chat);

// `source` is the text of the object that the fields are of: members keep their order. The first
// mistake is kept in the reader.
template_fields read_template_fields(field_reader& fields, std::string_view source);

} // namespace baton::gateway
