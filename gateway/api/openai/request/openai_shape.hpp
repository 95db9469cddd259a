// Reads the fields that decide what an answer of OpenAI's routes contains. All keep the first error
// in the reader.
#pragma once

#include "gateway/api/openai/request/openai_request.hpp"
#include "gateway/request/json_reader.hpp"

namespace baton::gateway {

// Chat: a flag and a number; completions: only a number.
void read_logprobs(field_reader& fields, openai_api api, const request_limits& limits,
                   openai_generate& out);
void read_token_ids(field_reader& fields, openai_generate& out);
// Draws more answers than it returns; their log-probabilities select. Requires: `n`, logprobs and
// stream are read.
void read_best_of(field_reader& fields, const request_limits& limits, openai_generate& out);
void read_stream(field_reader& fields, reply_shape& shape);

} // namespace baton::gateway
