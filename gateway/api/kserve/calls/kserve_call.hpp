// A KServe v2 call to a language model: its inputs, parameters and requested outputs. They come
// from the bodies of `infer` and `generate` (kserve_body) or from gRPC messages. Pure.
// kserve_request maps them to a generation request.
#pragma once

#include "gateway/api/kserve/calls/kserve_body.hpp"
#include "gateway/api/kserve/calls/kserve_tensor.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

struct kserve_input {
  const tensor_row* row;
  tensor_values values;
};

struct kserve_asked_output {
  kserve_output which;
  bool is_binary = false;
};

struct kserve_call {
  std::string id;
  std::vector<kserve_input> inputs; // no duplicates
  kserve_parameter_map parameters;
  std::vector<kserve_asked_output> outputs; // no duplicates; none: all
  bool is_binary = false;                   // the default for outputs
};

// `json_bytes`: the header Inference-Header-Content-Length; empty: the whole body is JSON. Errors:
// invalid_request, invalid_value, unsupported_parameter, with the name as param.
result<kserve_call> parse_infer(std::string_view body, std::string_view json_bytes,
                                const request_limits& limits);
// Inputs and parameters are members of the body; parameters may also be in "parameters".
result<kserve_call> parse_generate(std::string_view body, const request_limits& limits);

// Shared with gRPC. Errors: as above.
result<void> add_input(kserve_call& call, const tensor_row& row, result<tensor_values> values);
result<const tensor_row*> input_named(std::string_view name, std::string_view datatype);
result<void> add_output(kserve_call& call, std::string_view name, bool is_binary);
// `text` is JSON.
result<void> add_parameter(kserve_call& call, std::string_view name, std::string text);

} // namespace baton::gateway
