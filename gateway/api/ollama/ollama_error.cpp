#include "gateway/api/ollama/ollama_error.hpp"

#include "gateway/base/json_text.hpp"
#include "schema/result.hpp"

namespace baton::gateway {
namespace {

constexpr std::size_t model_shown_bytes_max = 256;
constexpr int forbidden = 403;

std::string error_object(std::string_view text) {
  return json_text(nlohmann::ordered_json{{"error", text}});
}

} // namespace

std::string ollama_error_body(const error& e) {
  if (!e.param.empty() && e.message.find(e.param) == e.message.npos) {
    return error_object(fmt::format("{}: {}", e.param, e.message)); // there is no other place
  }
  return error_object(e.message);
}

http_reply ollama_failure(const error& e, std::chrono::milliseconds retry_after) {
  auto reply = error_reply(e, retry_after);
  reply.body = ollama_error_body(e);
  return reply;
}

http_reply ollama_refusal(const rejected& no, int overload_status) {
  auto reply = ollama_failure(no.reason, no.retry_after);
  if (is_for_load(no.reason.code)) {
    reply.status = overload_status;
  }
  return reply;
}

error ollama_model_not_found(std::string_view model) {
  return fail_param(errc::model_not_found, "model", "model '{}' not found",
                    model.substr(0, model_shown_bytes_max));
}

http_reply ollama_not_carried_out(std::string_view what) {
  http_reply reply;
  reply.status = forbidden;
  reply.body = error_object(
      fmt::format("this server does not {}: it serves the models of its configuration", what));
  return reply;
}

} // namespace baton::gateway
