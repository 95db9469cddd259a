// Worker models in TorchServe's APIs: converts bodies and gRPC inputs to requests for a handler,
// and implements the management API. Pure except for prediction metrics.
#pragma once

#include "gateway/api/torchserve/torchserve_models.hpp"
#include "gateway/api/torchserve/torchserve_target.hpp"
#include "gateway/request/api_call.hpp"
#include "gateway/request/http_call.hpp"
#include "gateway/workers/worker_lookup.hpp"

#include <string>
#include <utility>
#include <vector>

namespace baton::gateway {

inline constexpr std::size_t worker_prediction_bytes_max = 64u << 20; // of one gRPC message

// Finds the model in the requested version. Nothing: no worker model has the name. Errors:
// model_not_found with param torchserve_version_param.
std::optional<result<worker_view>> find_managed_worker(const gateway_state& facts,
                                                       std::string_view model,
                                                       const std::optional<std::string>& version);

// The body of a prediction, or the form's field. Errors: invalid_request; unsupported_parameter (a
// second input, by name: a worker receives one body).
result<worker_call> read_worker_prediction(const worker_view& of, const http_call& call,
                                           const torchserve_route& route,
                                           const torchserve_target& target);
// The same for gRPC inputs. `version`: as requested.
result<infer> read_worker_prediction(const worker_view& of, const std::string& version,
                                     std::vector<std::pair<std::string, std::string>> inputs);
// Counts the start of a prediction; call the returned function when it succeeds.
std::function<void(const reply_times&)>
begin_prediction(gateway_state& facts, const std::string& model, const std::string& version);
// Rejects a piece that gRPC cannot represent: tensors, or a failure status, which becomes an error
// with the text of the body. Errors: handler_failed and others.
result<void> check_prediction(const inferred& piece);

model_urls worker_urls(const gateway_state& facts);
// As torchserve_models.hpp for language models. `versions`: of one name, the default first.
http_reply describe_worker(const snapshot& now, const std::vector<worker_view>& versions,
                           bool is_customized);
result<http_reply> scale_worker(const worker_view& of, const managed_model& model,
                                const torchserve_target& asked);
result<http_reply> set_default_worker(const worker_view& newest, const managed_model& model);
http_reply ready_worker(const worker_view& of, const snapshot& now);

} // namespace baton::gateway
