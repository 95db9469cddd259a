// Converts a KServe v2 call to a language model's typed request. Inputs and parameters are those of
// Triton's vLLM backend and of TensorRT-LLM. Pure. Unsupported ones are refused by name;
// docs/apis/triton.md lists them.
#pragma once

#include "gateway/api/kserve/calls/kserve_call.hpp"
#include "gateway/request/field_names.hpp"
#include "schema/messages.hpp"

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

// For stream_infer: whether an empty final message marks the end.
inline constexpr std::string_view empty_end_parameter = "triton_enable_empty_final_response";

// The number and format of a call's responses.
enum class kserve_route : std::uint8_t {
  infer,           // one, of tensors
  stream_infer,    // several, of tensors: gRPC
  generate,        // one, of members
  generate_stream, // several, of members, as events
};

// The format of the answer.
struct kserve_shape {
  kserve_route route = kserve_route::infer;
  std::string id;         // the client's; empty: none
  std::string model;      // as in the client's request
  bool is_stream = false; // a response per chunk instead of one at the end
  std::string lead;       // prefix of each answer: the prompt or nothing
  std::uint32_t choices = 1;
  bool has_logprobs = false; // the request includes logprobs
  std::vector<kserve_asked_output> outputs;
};

struct kserve_generate {
  generate request;
  kserve_shape shape;
  field_names client_names; // names of the fields in the client's request
};

// A missing seed is random. Errors: invalid_request, invalid_value, unsupported_parameter, with
// param.
result<kserve_generate> read_kserve(kserve_route route, kserve_call call, std::string_view model,
                                    const gateway_config& config);

// The parameters that a call may have besides the model's inputs.
std::set<std::string, std::less<>> kserve_parameters(const gateway_config& config);

// Every model has only this version.
inline constexpr std::string_view kserve_version = "1";

} // namespace baton::gateway
