// Errors as clients of Triton know them: {"error": "..."} under the status that Triton has for such
// a thing. Pure.
#pragma once

#include "gateway/base/http_text.hpp"
#include "schema/messages.hpp"

#include <string>

namespace baton::gateway {

// Names the field in the text: there is no other place for it.
std::string kserve_message(const error& e);
std::string kserve_error_body(const error& e);
int kserve_status(errc code) noexcept;
// Retry-After if it may be retried.
http_reply kserve_failure(const error& e, std::chrono::milliseconds retry_after = {});
// What is refused for load is 503, whatever the operator chose for others (`overload_status`).
http_reply kserve_refusal(const rejected& no, int overload_status);

} // namespace baton::gateway
