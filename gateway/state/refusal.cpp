#include "gateway/state/refusal.hpp"

#include <iterator>
#include <utility>

namespace baton::gateway {
namespace {

// As the scheduler's: a full server ends requests every second.
constexpr std::chrono::milliseconds retry_after_here{1'000};

} // namespace

rejected refuse_here(error reason, const snapshot& now, std::string_view model) {
  rejected no;
  if (row_of(reason.code).retryable) {
    no.retry_after = retry_after_here;
  }
  no.queue_position = waiting_for(now, model);
  no.reason = std::move(reason);
  return no;
}

std::string refusal_body(const rejected& no) {
  auto body = error_body(no.reason);
  if (!row_of(no.reason.code).retryable) {
    return body;
  }
  body.resize(body.size() - 2); // the closing braces of the error and of the object around it
  fmt::format_to(std::back_inserter(body), R"(,"retry_after":{})", retry_seconds(no.retry_after));
  if (is_for_load(no.reason.code)) {
    fmt::format_to(std::back_inserter(body), R"(,"queue_position":{})", no.queue_position);
  }
  return body + "}}";
}

http_reply refusal_reply(const rejected& no, int overload_status) {
  auto reply = error_reply(no.reason, no.retry_after);
  reply.body = refusal_body(no);
  if (is_for_load(no.reason.code)) {
    reply.status = overload_status;
  }
  return reply;
}

} // namespace baton::gateway
