// Errors in text-generation-inference's format: {"error","error_type"}. Clients map `error_type` to
// their exception classes. An error that TGI lacks has no `error_type` and the status of its row,
// which clients then use. Pure.
#pragma once

#include "gateway/base/http_text.hpp"
#include "schema/messages.hpp"

#include <string>

namespace baton::gateway {

std::string tgi_error_body(const error& e);
// With Retry-After if a retry makes sense.
http_reply tgi_failure(const error& e, std::chrono::milliseconds retry_after = {});
// A refusal for overload is always 429, whatever `overload_status` is configured.
http_reply tgi_refusal(const rejected& no, int overload_status);

} // namespace baton::gateway
