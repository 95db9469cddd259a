#include "gateway/api/torchserve/torchserve_error.hpp"

#include "schema/result.hpp"

#include <nlohmann/json.hpp>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

struct torchserve_kind {
  int status = 0;
  std::string_view type; // name of its exception
};

torchserve_kind kind_of(const error& e) noexcept {
  switch (e.code) {
  case errc::invalid_request:
  case errc::unsupported_parameter:
  case errc::invalid_value:
  case errc::unprocessable:
  case errc::context_length_exceeded:
  case errc::template_failed:
    return {400, "BadRequestException"};
  case errc::unauthorized: // TorchServe answers 400 to a wrong token
    return {400, "InvalidKeyException"};
  case errc::not_found:
  case errc::ticket_not_found:
    return {404, "ResourceNotFoundException"};
  case errc::model_not_found:
    return {404, e.param == torchserve_version_param ? "ModelVersionNotFoundException"
                                                     : "ModelNotFoundException"};
  case errc::method_not_allowed:
    return {405, "MethodNotAllowedException"};
  case errc::request_timeout:
  case errc::queue_timeout:
    return {408, "RequestTimeoutException"};
  case errc::conflict:
    return {409, "ConflictStatusException"};
  case errc::does_not_fit: // a worker that the system killed for its memory
    return {507, "InternalServerException"};
  case errc::start_failed:
  case errc::deadline_exceeded: // TorchServe treats a worker that times out as dead
  case errc::cancelled:
  case errc::slow_reader:
  case errc::quarantined:
    return {500, "InternalServerException"};
  default:
    break;
  }
  const auto status = row_of(e.code).http_status;
  if (status == 503) {
    return {status, "ServiceUnavailableException"};
  }
  return {status, status < 500 ? "BadRequestException" : "InternalServerException"};
}

} // namespace

std::string torchserve_message(const error& e) {
  if (e.code == errc::unauthorized) {
    return "Token Authorization failed. Token either incorrect, expired, or not provided correctly";
  }
  if (e.code == errc::model_not_found || e.param.empty() ||
      e.message.find(e.param) != e.message.npos) {
    return e.message;
  }
  return fmt::format("'{}': {}", e.param, e.message);
}

std::string torchserve_error_body(const error& e) {
  const auto kind = kind_of(e);
  const ordered body{
      {"code", kind.status}, {"type", kind.type}, {"message", torchserve_message(e)}};
  return body.dump(2, ' ', false, ordered::error_handler_t::replace) + "\n";
}

http_reply torchserve_failure(const error& e, std::chrono::milliseconds retry_after) {
  auto reply = error_reply(e, retry_after);
  reply.status = kind_of(e).status;
  reply.body = torchserve_error_body(e);
  return reply;
}

http_reply torchserve_refusal(const rejected& no, int /*overload_status*/) {
  return torchserve_failure(no.reason, no.retry_after);
}

// Its listeners have a document of their own (torchserve_openapi.hpp).
constinit const api_family torchserve_family{
    {}, nullptr, torchserve_refusal, [](const error& e) { return torchserve_failure(e); }};

error torchserve_busy(error e, std::string_view model) {
  if (is_for_load(e.code)) {
    e.message = fmt::format("Model \"{}\" has no worker to serve inference request. Please use "
                            "scale workers API to add workers. ({})",
                            model, e.message);
  }
  return e;
}

http_reply torchserve_reply(std::string json_text, int status) {
  http_reply reply;
  reply.status = status;
  reply.body = std::move(json_text) + "\n";
  reply.headers.emplace_back("Cache-Control", "no-cache; no-store, must-revalidate, private");
  return reply;
}

http_reply torchserve_json(const ordered& value, int status) {
  return torchserve_reply(value.dump(2, ' ', false, ordered::error_handler_t::replace), status);
}

http_reply torchserve_status(const std::string& text, int status) {
  return torchserve_json({{"status", text}}, status);
}

} // namespace baton::gateway
