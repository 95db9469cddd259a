// `options` of a request to Ollama's API: sampling, and the end of an answer. Used by
// ollama_request.cpp. Pure.
//
// Ollama's defaults are those of its clients: temperature 0.8, top_k 40, top_p 0.9, no limit of the
// tokens. A model's own defaults precede them. Options for the memory and threads of Ollama's
// runner have no effect here.
#pragma once

#include "gateway/api/openai/request/openai_request.hpp"
#include "gateway/config/config.hpp"
#include "gateway/request/field_names.hpp"
#include "gateway/request/json_reader.hpp"

#include <nlohmann/json_fwd.hpp>

namespace baton::gateway {

// `cuts_prompt`: a prompt that is too long is cut (`truncate`), then `num_ctx` bounds it. The
// reader keeps the first error.
void read_ollama_options(field_reader& fields, bool cuts_prompt, const request_limits& limits,
                         generate& out);

// The names of options in errors: "options.num_predict" ...
field_names ollama_option_names();

// Its schema, for /openapi.json.
nlohmann::ordered_json ollama_options_schema(const request_limits& limits);

} // namespace baton::gateway
