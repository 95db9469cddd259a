#include "gateway/grpc/grpc_status.hpp"

#include "gateway/base/http_text.hpp"
#include "runtime/text/unicode/utf8.hpp"

#include <algorithm>

namespace baton::gateway {
namespace {

// Status messages travel in a header; many proxies accept at most 8 KiB of headers.
constexpr std::size_t message_bytes_max = 2048;

} // namespace

grpc_code grpc_code_of(errc code) noexcept {
  switch (code) {
  case errc::invalid_request:
  case errc::unsupported_parameter:
  case errc::invalid_value:
  case errc::payload_too_large:
  case errc::unsupported_media_type:
  case errc::unprocessable:
  case errc::header_too_large:
  case errc::context_length_exceeded:
  case errc::template_failed:
    return grpc_code::invalid_argument;
  case errc::unauthorized:
    return grpc_code::unauthenticated;
  case errc::forbidden:
    return grpc_code::permission_denied;
  case errc::not_found:
  case errc::model_not_found:
  case errc::ticket_not_found:
    return grpc_code::not_found;
  case errc::method_not_allowed:
    return grpc_code::unimplemented;
  case errc::conflict:
    return grpc_code::failed_precondition;
  case errc::overloaded:
  case errc::no_job_ticket:
  case errc::rate_limit_exceeded:
    return grpc_code::resource_exhausted;
  case errc::cancelled:
    return grpc_code::cancelled;
  case errc::request_timeout:
  case errc::deadline_exceeded:
    return grpc_code::deadline_exceeded;
  case errc::slow_reader:
    return grpc_code::aborted;
  case errc::start_failed: // of a model, as in Triton
    return grpc_code::internal;
  case errc::queue_timeout: // the queue's time limit, not the client's
    return grpc_code::unavailable;
  default: // faults of the server
    return row_of(code).http_status == 503 || row_of(code).retryable ? grpc_code::unavailable
                                                                     : grpc_code::internal;
  }
}

std::string grpc_text(std::string_view message) {
  std::string out;
  message = message.substr(0, message_bytes_max);
  while (!message.empty()) {
    const auto valid = text::utf8_valid_prefix(message);
    out += message.substr(0, valid);
    message.remove_prefix(valid);
    if (!message.empty()) {
      out += '?';
      message.remove_prefix(1);
    }
  }
  return out;
}

grpc_status grpc_failure(errc code, std::string_view message,
                         std::chrono::milliseconds retry_after) {
  grpc_status out{static_cast<int>(grpc_code_of(code)), grpc_text(message), {}};
  out.trailers.emplace_back("baton-error", row_of(code).name);
  if (row_of(code).retryable) {
    const auto wait = std::max(retry_after, std::chrono::milliseconds(1'000));
    out.trailers.emplace_back("retry-after", std::to_string(retry_seconds(wait)));
    out.trailers.emplace_back("grpc-retry-pushback-ms", std::to_string(wait.count()));
  }
  return out;
}

} // namespace baton::gateway
