// What a call of the KServe v2 protocol means to a worker model: tensors as they are, checked
// against what its [[workers]] table declares, or members of Triton's extension `generate` made
// into declared inputs. Pure: bytes in, an `infer` out. How it is answered: kserve_worker_reply.
#pragma once

#include "gateway/api/kserve/kserve_request.hpp"
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

// How the answer is to look.
struct kserve_worker_shape {
  kserve_route route = kserve_route::infer;
  std::string id;    // the client's; empty: none
  std::string model; // as the client named it
  std::string version;
  std::vector<asked_output> outputs; // none: whatever there is
  bool is_binary = false;            // the outputs, where none is named
  bool has_empty_end = false;        // of stream_infer: empty_end_parameter
};

struct kserve_worker_call {
  infer request; // but for its version: as the client has asked for it
  kserve_worker_shape shape;
};

// Errors: unsupported_parameter if there are any; `of` is what they are told with.
result<void> refuse_parameters(const grpc_parameters& all, std::string_view of);

// Errors of all: invalid_request, invalid_value, unsupported_parameter, with the name as param.
result<kserve_worker_call> read_worker_infer(const worker_view& of, std::string_view body,
                                             std::string_view json_bytes,
                                             const request_limits& limits);
result<kserve_worker_call> read_worker_infer(const worker_view& of, kserve_route route,
                                             grpc_infer said);
result<kserve_worker_call> read_worker_generate(const worker_view& of, kserve_route route,
                                                std::string_view body,
                                                const request_limits& limits);

} // namespace baton::gateway
