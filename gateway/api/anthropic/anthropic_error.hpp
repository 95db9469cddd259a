// Errors in the format of Anthropic's API: {"type": "error", "error": {"type", "message"},
// "request_id"}, with Anthropic's types and statuses. Pure.
#pragma once

#include "gateway/base/http_text.hpp"
#include "schema/messages.hpp"

#include <string>

namespace baton::gateway {

// Without the request's id: of a reply, and of an `error` event.
std::string anthropic_error_body(const error& e);
// Retry-After if the request may be repeated. `render` adds the request's id.
http_reply anthropic_failure(const error& e, std::chrono::milliseconds retry_after = {});
// Overload has the status 529 that Anthropic's clients expect, whatever the operator's is.
http_reply anthropic_refusal(const rejected& no, int overload_status);

} // namespace baton::gateway
