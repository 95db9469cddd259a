// Errors in Triton's format: {"error": "..."} under the status that Triton uses. Pure.
#pragma once

#include "gateway/base/http_text.hpp"
#include "schema/messages.hpp"

#include <string>

namespace baton::gateway {

// Includes the field's name, because the format has no other place for it.
std::string kserve_message(const error& e);
std::string kserve_error_body(const error& e);
int kserve_status(errc code) noexcept;
// With Retry-After if a retry makes sense.
http_reply kserve_failure(const error& e, std::chrono::milliseconds retry_after = {});
// A refusal for overload is always 503, whatever `overload_status` is configured.
http_reply kserve_refusal(const rejected& no, int overload_status);

} // namespace baton::gateway
