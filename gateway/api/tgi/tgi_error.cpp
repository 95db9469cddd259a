#include "gateway/api/tgi/tgi_error.hpp"

#include "schema/result.hpp"

#include <nlohmann/json.hpp>

namespace baton::gateway {
namespace {

// Fields of TGI's InferError.
struct tgi_kind {
  int status = 0;
  std::string_view type; // empty: not in TGI
  std::string_view lead;
};

tgi_kind kind_of(errc code) noexcept {
  switch (code) {
  case errc::invalid_request:
  case errc::unsupported_parameter:
  case errc::invalid_value:
  case errc::unprocessable:
  case errc::context_length_exceeded:
    return {422, "validation", "Input validation error: "};
  case errc::template_failed:
    return {422, "template_error", "Template error: "};
  case errc::overloaded:
  case errc::no_job_ticket:
  case errc::queue_timeout:
    return {429, "overloaded", "Model is overloaded: "};
  case errc::cancelled:
  case errc::deadline_exceeded:
  case errc::slow_reader:
  case errc::ticket_not_found:
    return {500, "incomplete_generation", "Incomplete generation: "};
  case errc::quarantined:
  case errc::pipeline_lost:
  case errc::internal:
  case errc::bad_frame:
  case errc::stale_epoch:
  case errc::link_down:
  case errc::back_pressure:
    return {424, "generation", "Request failed during generation: "};
  default:
    return {row_of(code).http_status, {}, {}};
  }
}

} // namespace

std::string tgi_error_body(const error& e) {
  const auto kind = kind_of(e.code);
  auto text = std::string(kind.lead);
  if (!e.param.empty() && e.message.find(e.param) == e.message.npos) {
    text += fmt::format("'{}': ", e.param); // the format has no other place for it
  }
  text += e.message;
  nlohmann::ordered_json body{{"error", std::move(text)}};
  if (!kind.type.empty()) {
    body["error_type"] = kind.type;
  }
  return body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

http_reply tgi_failure(const error& e, std::chrono::milliseconds retry_after) {
  auto reply = error_reply(e, retry_after);
  reply.status = kind_of(e.code).status;
  reply.body = tgi_error_body(e);
  return reply;
}

http_reply tgi_refusal(const rejected& no, int /*overload_status*/) {
  return tgi_failure(no.reason, no.retry_after);
}

} // namespace baton::gateway
