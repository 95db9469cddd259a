// Errors in TorchServe's format: {"code","type","message"}, with its statuses and the names of its
// exceptions (frontend/server, HttpRequestHandler.java). Pure.
#pragma once

#include "gateway/request/response_writer.hpp"
#include "schema/messages.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace baton::gateway {

// The only version of a language model: TorchServe's default.
inline constexpr std::string_view torchserve_version = "1.0";
// The parameter of model_not_found if the model exists but its version does not.
inline constexpr std::string_view torchserve_version_param = "model_version";

// Includes the field's name, because the format has no other place for it.
std::string torchserve_message(const error& e);
std::string torchserve_error_body(const error& e);
// With Retry-After if a retry makes sense.
http_reply torchserve_failure(const error& e, std::chrono::milliseconds retry_after = {});
// A refusal for overload is always 503, whatever `overload_status` is configured.
http_reply torchserve_refusal(const rejected& no, int overload_status);
extern const api_family torchserve_family;
// Rewords an overload refusal as TorchServe does, with the model; other errors are unchanged.
error torchserve_busy(error e, std::string_view model);
// JSON in TorchServe's style: indented by two, with a final newline.
http_reply torchserve_reply(std::string json_text, int status = 200);
http_reply torchserve_json(const nlohmann::ordered_json& value, int status = 200);
// {"status":TEXT}
http_reply torchserve_status(const std::string& text, int status = 200);

} // namespace baton::gateway
