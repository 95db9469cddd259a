// Converts the bodies of TorchServe's predictions to typed requests: text, JSON or a form. The
// fields are those of its language model handlers (ts/torch_handler/vllm_handler.py,
// examples/large_models, examples/LLM). Parameters have the names of OpenAI and vLLM, and the
// handlers' own names. Pure.
#pragma once

#include "gateway/api/openai/request/openai_request.hpp"
#include "gateway/api/torchserve/torchserve_form.hpp"
#include "gateway/config/config.hpp"
#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

// The format of an answer: the text only; {"text","tokens"} as TorchServe's first vLLM handler; or
// OpenAI's, below /predictions/{model}/{version}/v1.
enum class torchserve_format : std::uint8_t { text, json_value, openai };

struct torchserve_generate {
  openai_generate call;
  torchserve_format speaks = torchserve_format::text;
  bool has_version = false; // the client requested a version
};

// KServe's {"instances"}: each is its own request; all are answered together.
struct torchserve_batch {
  std::vector<generate> requests;
  std::vector<field_names> client_names; // one for each request
};

struct torchserve_body {
  std::string_view content_type, accept, text;
  // HTTP/1.0 marks the end by closing, so a stream that breaks off would look complete.
  bool can_stream = true;
};

// The body is the prompt as text, or {"prompt", ...}. The answer has the body's type unless Accept
// differs. It is streamed unless `stream` (or `streaming`) is false. Errors: invalid_request,
// invalid_value, unsupported_parameter, with param; unsupported_media_type.
result<torchserve_generate> parse_prediction(const torchserve_body& body,
                                             const request_limits& limits);
// Raw bytes for a model that parses them: the body or the form's field, with its content type.
// Errors: invalid_request (a form without the field).
result<form_input> worker_input_of(const torchserve_body& body);
// The same for one of OpenAI's bodies.
result<torchserve_generate> parse_openai_prediction(openai_api api, const torchserve_body& body,
                                                    const request_limits& limits);
// Instances are texts, or objects with a `prompt` (or `data`) and parameters.
result<torchserve_batch> parse_instances(std::string_view body, const request_limits& limits);

} // namespace baton::gateway
