// `prompt` of completions, or `input` of embeddings: one, or a list of them that are answered
// together. Used by openai_fields.cpp and embedding_request.cpp. Pure; the first mistake is kept in
// the reader.
#pragma once

#include "gateway/api/openai/openai_request.hpp"
#include "gateway/base/json_reader.hpp"

namespace baton::gateway {

// The field of that name: a text or token ids, or a list of several of one of these. At least one,
// perhaps empty.
std::vector<prompt> read_prompts(field_reader& fields, std::string_view name,
                                 const request_limits& limits);

// `echo`, and a request for each prompt behind the first one: the same as `out.request` but for its
// prompt and, where the client has given none, its seed. Together they are bounded by answers_max.
// Requires: all other fields are read, out.request has the first of them.
void read_several(field_reader& fields, const request_limits& limits, std::vector<prompt> all,
                  openai_generate& out);

} // namespace baton::gateway
