// A call of the KServe v2 protocol to a language model: named inputs, parameters and the outputs
// that are asked for, out of the bodies of `infer` and `generate` (kserve_body) or of gRPC's
// messages. Pure: bytes in, values out. What they mean to a language model: kserve_request.
#pragma once

#include "gateway/api/kserve/kserve_body.hpp"
#include "gateway/api/kserve/kserve_tensor.hpp"

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
  std::vector<kserve_input> inputs; // each once
  kserve_parameter_map parameters;
  std::vector<kserve_asked_output> outputs; // each once; none: whatever there is
  bool is_binary = false;                   // the outputs, where none is named
};

// `json_bytes`: the header Inference-Header-Content-Length; empty: all of the body is JSON.
// Errors: invalid_request, invalid_value, unsupported_parameter, with the name as param.
result<kserve_call> parse_infer(std::string_view body, std::string_view json_bytes,
                                const request_limits& limits);
// A model's own inputs and parameters stand beside one another, or in "parameters".
result<kserve_call> parse_generate(std::string_view body, const request_limits& limits);

// Parts that gRPC shares. Errors: as above.
result<void> add_input(kserve_call& call, const tensor_row& row, result<tensor_values> values);
result<const tensor_row*> input_named(std::string_view name, std::string_view datatype);
result<void> add_output(kserve_call& call, std::string_view name, bool is_binary);
// `text` is JSON.
result<void> add_parameter(kserve_call& call, std::string_view name, std::string text);

} // namespace baton::gateway
