// Errors in the format of Ollama's API: {"error": "..."}. Pure.
#pragma once

#include "gateway/base/http_text.hpp"
#include "schema/messages.hpp"

#include <string>
#include <string_view>

namespace baton::gateway {

// The body of a reply, and the last line of a stream.
std::string ollama_error_body(const error& e);
// With the status of the error's row, and Retry-After if the request may be repeated.
http_reply ollama_failure(const error& e, std::chrono::milliseconds retry_after = {});
// Refusals for load have the operator's status: 503, as Ollama's, unless it is set.
http_reply ollama_refusal(const rejected& no, int overload_status);

// In Ollama's words: its clients look for them before they pull a model.
error ollama_model_not_found(std::string_view model);
// A call about model files, which a gateway does not change: 403.
http_reply ollama_not_carried_out(std::string_view what);

} // namespace baton::gateway
