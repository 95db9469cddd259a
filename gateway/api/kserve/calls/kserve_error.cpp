#include "gateway/api/kserve/calls/kserve_error.hpp"

#include "schema/result.hpp"

#include <nlohmann/json.hpp>

namespace baton::gateway {

// As in Triton, INVALID_ARG is always 400. UNAVAILABLE is 503: a full queue, a time-out in it, a
// feature that the server is not set up for.
int kserve_status(errc code) noexcept {
  switch (code) {
  case errc::unprocessable:
  case errc::payload_too_large:
    return 400;
  case errc::queue_timeout:
  case errc::deadline_exceeded:
  case errc::conflict:
    return 503;
  case errc::start_failed: // INTERNAL, as for a model that fails to load
    return 500;
  default:
    return row_of(code).http_status;
  }
}

std::string kserve_message(const error& e) {
  if (e.param.empty() || e.message.find(e.param) != e.message.npos) {
    return e.message;
  }
  return fmt::format("'{}': {}", e.param, e.message);
}

std::string kserve_error_body(const error& e) {
  const nlohmann::json body{{"error", kserve_message(e)}};
  return body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

http_reply kserve_failure(const error& e, std::chrono::milliseconds retry_after) {
  auto reply = error_reply(e, retry_after);
  reply.status = kserve_status(e.code);
  reply.body = kserve_error_body(e);
  return reply;
}

http_reply kserve_refusal(const rejected& no, int /*overload_status*/) {
  return kserve_failure(no.reason, no.retry_after);
}

} // namespace baton::gateway
