// Maps each gRPC method and its message to an immediate reply, or to a typed request and the way to
// answer it. Knows messages through the library's codec, and no connections. Pure except that it
// reads the gateway state.
#pragma once

#include "gateway/api/kserve/calls/kserve_request.hpp"
#include "gateway/auth/authenticator.hpp"
#include "gateway/grpc/grpc_methods.hpp"
#include "gateway/grpc/grpc_status.hpp"
#include "gateway/metrics/worker_load.hpp"
#include "gateway/request/field_names.hpp"
#include "gateway/request/response_writer.hpp"
#include "gateway/tracing/trace_context.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace baton::gateway {

// Turns a request's events (chunks of a model, pieces of a worker model) into messages.
class grpc_answer {
public:
  virtual ~grpc_answer() = default;
  // Requires: failure_of(c) is nothing. May buffer its input until flush().
  virtual void add(const chunk&, std::vector<std::string>& /*out*/) {}
  // No further events are ready: writes what is buffered.
  virtual void flush(std::vector<std::string>& /*out*/) {}
  // Errors: the answer cannot be encoded; the call ends with the error.
  virtual result<void> take(inferred, std::vector<std::string>& /*out*/) {
    return fail(errc::internal, "the answer was of another kind");
  }
  virtual void take(const model_changed&, std::vector<std::string>& /*out*/) {}
  virtual bool has_ended() const noexcept = 0;
  // The message that reports a failure; nothing: the call ends with the failure.
  virtual std::optional<std::string> failure(const error&) const { return std::nullopt; }
};

struct grpc_reply {
  std::string bytes;
};
struct grpc_generate {
  generate request;
  std::unique_ptr<grpc_answer> answer;
  bool add_generation_prompt = true;
  std::string busy_model{}; // of TorchServe, for its wording of an overload refusal
  std::function<void(const reply_times&)> ended_well{}; // none: no statistics
  field_names client_names{}; // names of the fields in the client's request
};
struct grpc_worker_request {
  infer request;
  std::unique_ptr<grpc_answer> answer;
  std::string busy_model{};
  std::function<void(const reply_times&)> ended_well{};
  bool goes_alone = false; // its worker receives no other request in the same batch
};
// The root answers the request; a success becomes a message.
struct grpc_root_request {
  change_model change;
  std::function<std::string(const model_changed&)> to_message;
};
// An error in one message of a stream, reported in another message.
struct grpc_stream_error {
  std::string bytes;
  error what;
};
using grpc_plan = std::variant<grpc_reply, grpc_generate, grpc_worker_request, grpc_root_request,
                               grpc_stream_error, error>;

// The status for an error, in the wording of the service.
grpc_status grpc_failure(grpc_service service, const error& e,
                         std::chrono::milliseconds retry_after = {});

// Authenticates and authorizes the call; an unknown method requires a key too. Errors:
// unauthorized, forbidden; not_found; method_not_allowed, for a method known but not available
// here.
result<principal> admit_grpc(grpc_service service, const grpc_head& head, gateway_state& facts);
// The value of the metadata `name`; empty if it occurs twice.
std::string_view metadata_of(const grpc_head& head, std::string_view name) noexcept;
// The client's trace, if traces are exported.
std::optional<trace_parent> trace_of(const grpc_head& head);
// Requires: admit_grpc has accepted the call.
grpc_plan plan_grpc(const grpc_method& method, std::string_view message, const grpc_codec& codec,
                    gateway_state& facts);

// Its parts, by service.
grpc_plan plan_kserve_infer(const grpc_method& method, std::string_view message,
                            const grpc_codec& codec, const gateway_state& facts);
// For RepositoryModelLoad and RepositoryModelUnload. Nothing: not for a model repository.
std::optional<result<change_model>> plan_repository_change(const grpc_method& method,
                                                           const std::string& asked,
                                                           const gateway_state& facts);
// For a model of the store. Nothing: not for the root.
std::optional<result<change_model>>
plan_store_change(const grpc_method& method, const std::string& asked, const gateway_state& facts);
result<std::string> answer_kserve(const grpc_method& method, const std::string& asked,
                                  const gateway_state& facts); // JSON both
grpc_plan plan_torchserve_prediction(const grpc_method& method, std::string_view message,
                                     const grpc_codec& codec, gateway_state& facts);
result<std::string> answer_torchserve(const grpc_method& method, const std::string& asked,
                                      const gateway_state& facts); // JSON both
// For worker models.
grpc_plan plan_worker_infer(const worker_view& of, kserve_route route, grpc_infer received,
                            const grpc_codec& codec);
grpc_plan plan_worker_prediction(const worker_view& of, const grpc_method& method,
                                 grpc_prediction received, const grpc_codec& codec,
                                 gateway_state& facts);

} // namespace baton::gateway
