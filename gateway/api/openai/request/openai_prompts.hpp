// `prompt` of completions, or `input` of embeddings: one value, or a list that is answered
// together. Used by openai_fields.cpp and embedding_request.cpp. Pure; the reader keeps the first
// error.
#pragma once

#include "gateway/api/openai/request/openai_request.hpp"
#include "gateway/request/json_reader.hpp"

namespace baton::gateway {

// Reads the field `name`: a text, token ids, or a list of either. The result has at least one
// prompt, which may be empty.
std::vector<prompt> read_prompts(field_reader& fields, std::string_view name,
                                 const request_limits& limits);

// Reads `echo` and adds a request for each prompt after the first. They equal `out.request` except
// for the prompt and, if the client gave none, the seed. answers_max bounds their number. Requires:
// all other fields are read; out.request has the first prompt.
void read_several(field_reader& fields, const request_limits& limits, std::vector<prompt> all,
                  openai_generate& out);

} // namespace baton::gateway
