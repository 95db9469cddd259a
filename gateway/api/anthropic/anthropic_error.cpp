#include "gateway/api/anthropic/anthropic_error.hpp"

#include "gateway/base/json_text.hpp"

namespace baton::gateway {
namespace {

struct anthropic_kind {
  int status;
  std::string_view type;
};

// Source: https://platform.claude.com/docs/en/api/errors. Other client errors keep their status
// and are invalid requests, as that page allows.
anthropic_kind kind_of_anthropic(errc code) noexcept {
  const auto& row = row_of(code);
  switch (code) {
  case errc::unprocessable:
    return {400, "invalid_request_error"};
  case errc::unauthorized:
    return {401, "authentication_error"};
  case errc::forbidden:
    return {403, "permission_error"};
  case errc::not_found:
  case errc::model_not_found:
  case errc::ticket_not_found:
    return {404, "not_found_error"};
  case errc::payload_too_large:
    return {413, "request_too_large"};
  case errc::rate_limit_exceeded:
    return {429, "rate_limit_error"};
  case errc::overloaded:
  case errc::no_job_ticket:
  case errc::draining:
  case errc::not_ready:
  case errc::queue_timeout:
    return {529, "overloaded_error"};
  case errc::deadline_exceeded:
    return {504, "timeout_error"};
  default:
    return row.http_status >= 500 ? anthropic_kind{500, "api_error"}
                                  : anthropic_kind{row.http_status, "invalid_request_error"};
  }
}

} // namespace

std::string anthropic_error_body(const error& e) {
  auto text = e.message;
  if (!e.param.empty() && text.find(e.param) == text.npos) {
    text = fmt::format("{}: {}", e.param, text); // the format has no other place for it
  }
  nlohmann::ordered_json inner{{"type", kind_of_anthropic(e.code).type},
                               {"message", std::move(text)}};
  if (e.code == errc::unsupported_parameter && e.param == "thread") {
    // The official client's tool runner continues without a thread if it reads this.
    inner["details"] = {{"error_code", "thread_unsupported_request"}, {"unsupported", {"thread"}}};
  }
  return json_text(nlohmann::ordered_json{{"type", "error"}, {"error", std::move(inner)}});
}

http_reply anthropic_failure(const error& e, std::chrono::milliseconds retry_after) {
  auto reply = error_reply(e, retry_after);
  reply.status = kind_of_anthropic(e.code).status;
  reply.body = anthropic_error_body(e);
  reply.names_request = true;
  return reply;
}

http_reply anthropic_refusal(const rejected& no, int /*overload_status*/) {
  return anthropic_failure(no.reason, no.retry_after);
}

} // namespace baton::gateway
