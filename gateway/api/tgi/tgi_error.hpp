// Errors as text-generation-inference's clients know them: {"error","error_type"}, by which they
// raise errors of their own classes. What TGI has no word for has no `error_type` and the status of
// its row, so that clients go by that. Pure.
#pragma once

#include "gateway/base/http_text.hpp"
#include "schema/messages.hpp"

#include <string>

namespace baton::gateway {

std::string tgi_error_body(const error& e);
// Retry-After if it may be retried.
http_reply tgi_failure(const error& e, std::chrono::milliseconds retry_after = {});
// What is refused for load is 429, whatever the operator chose for others (`overload_status`).
http_reply tgi_refusal(const rejected& no, int overload_status);

} // namespace baton::gateway
