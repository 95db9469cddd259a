// A chat request's fields for the model's chat template besides messages and tools, with vLLM's
// names. These are chat_template_kwargs, documents, add_generation_prompt and
// continue_final_message. A request cannot bring a template. Used by openai_fields.cpp and
// openai_request.cpp. Pure.
#pragma once

#include "gateway/request/json_reader.hpp"
#include "schema/messages.hpp"

namespace baton::gateway {

struct template_fields {
  template_options options;
  bool add_generation_prompt = true;
};

// add_special_tokens as in vLLM: by default true for a text, false for a chat.
special_tokens read_special_tokens(field_reader& fields, bool is_chat);

// `source` is the text of the fields' object: members keep their order. The reader keeps the first
// error.
template_fields read_template_fields(field_reader& fields, std::string_view source);

} // namespace baton::gateway
