// Worker models at TorchServe's doors: bodies and gRPC's inputs to what a handler is asked, and the
// management API over what the gateway knows of them. Pure but for the metrics of predictions.
#pragma once

#include "gateway/api/torchserve/torchserve_models.hpp"
#include "gateway/api/torchserve/torchserve_target.hpp"
#include "gateway/routes/http_api.hpp"
#include "gateway/workers/worker_lookup.hpp"

#include <string>
#include <utility>
#include <vector>

namespace baton::gateway {

inline constexpr std::size_t worker_prediction_bytes_max = 64u << 20; // of one message of gRPC

// The model in the version that was asked for. Nothing: no worker model has that name.
// Errors: model_not_found with param torchserve_version_param.
std::optional<result<worker_view>> find_managed_worker(const board& facts, std::string_view model,
                                                       const std::optional<std::string>& version);

// The body of a prediction, or the one field of a form. Errors: invalid_request;
// unsupported_parameter (a second input, by its name: a worker is asked one body).
result<worker_call> read_worker_prediction(const worker_view& of, const http_call& call,
                                           const torchserve_route& route,
                                           const torchserve_target& target);
// The same of gRPC's inputs. `version`: as the client has asked for it.
result<infer> read_worker_prediction(const worker_view& of, const std::string& version,
                                     std::vector<std::pair<std::string, std::string>> inputs);
// Counts a prediction that is asked for; what it gives is for its end, if that is a good one.
std::function<void(const reply_times&)> begin_prediction(board& facts, const std::string& model,
                                                         const std::string& version);
// What gRPC cannot tell of a piece: tensors, and a status that is a failure, which is an error of
// its kind with the body's words. Errors: handler_failed and others.
result<void> check_prediction(const inferred& piece);

model_urls worker_urls(const board& facts);
// As torchserve_models.hpp has them of language models. `versions`: of one name, the one without a
// name first.
http_reply describe_worker(const snapshot& now, const std::vector<worker_view>& versions,
                           bool is_customized);
result<http_reply> scale_worker(const worker_view& of, const managed_model& model,
                                const torchserve_target& asked);
result<http_reply> set_default_worker(const worker_view& newest, const managed_model& model);
http_reply ready_worker(const worker_view& of, const snapshot& now);

} // namespace baton::gateway
