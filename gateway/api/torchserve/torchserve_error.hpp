// Errors as TorchServe's clients know them: {"code","type","message"} under its statuses, with the
// names of its exceptions (frontend/server, HttpRequestHandler.java). Pure.
#pragma once

#include "gateway/base/http_text.hpp"
#include "schema/messages.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace baton::gateway {

// A model has one version, TorchServe's default.
inline constexpr std::string_view torchserve_version = "1.0";
// The parameter of model_not_found when the model is there and its version is not.
inline constexpr std::string_view torchserve_version_param = "model_version";

// Names the field in the text: there is no other place for it.
std::string torchserve_message(const error& e);
std::string torchserve_error_body(const error& e);
// Retry-After if it may be retried.
http_reply torchserve_failure(const error& e, std::chrono::milliseconds retry_after = {});
// What is refused for load is 503, whatever the operator chose for others (`overload_status`).
http_reply torchserve_refusal(const rejected& no, int overload_status);
// A refusal for load in its words, in which the model is; any other error as it is.
error torchserve_busy(error e, std::string_view model);
// JSON as it writes it: indented by two, with a line end.
http_reply torchserve_reply(std::string json_text, int status = 200);
http_reply torchserve_json(const nlohmann::ordered_json& value, int status = 200);
// {"status":TEXT}
http_reply torchserve_status(const std::string& text, int status = 200);

} // namespace baton::gateway
