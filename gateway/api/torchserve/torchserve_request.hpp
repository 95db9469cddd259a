// The bodies of TorchServe's predictions to typed requests: what its handlers of language models
// take (ts/torch_handler/vllm_handler.py, examples/large_models, examples/LLM), as text, JSON or a
// form. Parameters are OpenAI's and vLLM's; those that the handlers call otherwise have their names
// as well. Pure.
#pragma once

#include "gateway/api/openai/openai_request.hpp"
#include "gateway/api/torchserve/torchserve_form.hpp"
#include "gateway/config/config.hpp"
#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

// What an answer is told in: the text alone; {"text","tokens"} as TorchServe's first handler for
// vLLM; or OpenAI's words, below /predictions/{model}/{version}/v1.
enum class torchserve_words : std::uint8_t { text, json_value, openai };

struct torchserve_generate {
  openai_generate call;
  torchserve_words speaks = torchserve_words::text;
  bool has_version = false; // the client has asked for one
};

// KServe's {"instances"}: each is a request of its own, and all are answered together.
struct torchserve_batch {
  std::vector<generate> requests;
  std::vector<field_words> words; // of each
};

struct torchserve_body {
  std::string_view content_type, accept, text;
  // HTTP/1.0 ends an answer with its connection: one that broke off would look whole.
  bool can_stream = true;
};

// A text, which is the prompt, or {"prompt", ...}. Text is answered by text and JSON by JSON,
// unless Accept says otherwise; in pieces, unless `stream` (or `streaming`) is false. Errors:
// invalid_request, invalid_value, unsupported_parameter, with param; unsupported_media_type.
result<torchserve_generate> parse_prediction(const torchserve_body& body,
                                             const request_limits& limits);
// Any bytes, for a model that reads them itself: the body, or the field of a form, with its content
// type. Errors: invalid_request (a form without it).
result<form_input> worker_input_of(const torchserve_body& body);
// The same of one of OpenAI's bodies.
result<torchserve_generate> parse_openai_prediction(openai_api api, const torchserve_body& body,
                                                    const request_limits& limits);
// Instances are texts, or objects of a `prompt` (or `data`) and parameters.
result<torchserve_batch> parse_instances(std::string_view body, const request_limits& limits);

} // namespace baton::gateway
