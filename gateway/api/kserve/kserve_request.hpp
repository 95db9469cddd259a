// What a call of the KServe v2 protocol means to a language model, in the words of Triton's vLLM
// backend and of TensorRT-LLM: inputs and parameters to a typed request. Pure. What is not
// supported is refused by name; docs/compatibility-triton.md has the list.
#pragma once

#include "gateway/api/kserve/kserve_call.hpp"
#include "gateway/base/field_words.hpp"
#include "schema/messages.hpp"

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

// Of stream_infer: whether a last message that says nothing else says that it is the last.
inline constexpr std::string_view empty_end_parameter = "triton_enable_empty_final_response";

// How many responses a call may have, and in what words they are.
enum class kserve_route : std::uint8_t {
  infer,           // one, of tensors
  stream_infer,    // several, of tensors: gRPC's
  generate,        // one, of members
  generate_stream, // several, of members, as events
};

// How the answer is to look.
struct kserve_shape {
  kserve_route route = kserve_route::infer;
  std::string id;         // the client's; empty: none
  std::string model;      // as the client named it
  bool is_stream = false; // a response for what comes, not one at the end
  std::string lead;       // stands before each answer: the prompt, or nothing
  std::uint32_t choices = 1;
  bool has_logprobs = false; // there are some to tell of
  std::vector<kserve_asked_output> outputs;
};

struct kserve_generate {
  generate request;
  kserve_shape shape;
  field_words words; // what the client calls its fields
};

// A missing seed is drawn at random.
// Errors: invalid_request, invalid_value, unsupported_parameter, with param.
result<kserve_generate> read_kserve(kserve_route route, kserve_call call, std::string_view model,
                                    const gateway_config& config);

// Parameters that a call may have beside the model's inputs.
std::set<std::string, std::less<>> kserve_parameters(const gateway_config& config);

// The one version that every model has.
inline constexpr std::string_view kserve_version = "1";

} // namespace baton::gateway
