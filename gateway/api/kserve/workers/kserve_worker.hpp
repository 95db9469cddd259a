// Converts a KServe v2 call to an `infer` for a worker model. Tensors are checked against the
// [[workers]] table; members of Triton's extension `generate` become declared inputs. Pure.
// kserve_worker_reply answers the call.
#pragma once

#include "gateway/api/kserve/calls/kserve_request.hpp"
#include "gateway/config/config.hpp"
#include "gateway/grpc/grpc_wire.hpp"
#include "gateway/metrics/worker_load.hpp"
#include "schema/messages.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

struct asked_output {
  std::string name;
  bool is_binary = false;
};

// The format of the answer.
struct kserve_worker_shape {
  kserve_route route = kserve_route::infer;
  std::string id;    // the client's; empty: none
  std::string model; // as in the client's request
  std::string version;
  std::vector<asked_output> outputs; // none: all
  bool is_binary = false;            // the default for outputs
  bool has_empty_end = false;        // for stream_infer: empty_end_parameter
};

struct kserve_worker_call {
  infer request; // the caller sets the version, as the client requested it
  kserve_worker_shape shape;
};

// Errors: unsupported_parameter if `all` is not empty; `of` names the owner in the message.
result<void> refuse_parameters(const grpc_parameters& all, std::string_view of);

// Errors of all: invalid_request, invalid_value, unsupported_parameter, with the name as param.
result<kserve_worker_call> read_worker_infer(const worker_view& of, std::string_view body,
                                             std::string_view json_bytes,
                                             const request_limits& limits);
result<kserve_worker_call> read_worker_infer(const worker_view& of, kserve_route route,
                                             grpc_infer given);
result<kserve_worker_call> read_worker_generate(const worker_view& of, kserve_route route,
                                                std::string_view body,
                                                const request_limits& limits);

} // namespace baton::gateway
