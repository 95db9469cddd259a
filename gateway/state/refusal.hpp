// The body of a refusal, for all protocols: the reason, when to retry, and how many requests were
// ahead. Pure.
#pragma once

#include "gateway/base/http_text.hpp"
#include "gateway/state/gateway_state.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace baton::gateway {

// The principal of a call, or the reply that refuses it.
struct http_admission {
  principal who;
  std::optional<http_reply> refusal;
};

// A refusal by the gateway itself, with the shortest queue of the model (waiting_for).
rejected refuse_here(error reason, const snapshot& now, std::string_view model = {});

// OpenAI's error object. It has `retry_after` if the request may be retried, and `queue_position`
// if it was refused for load.
std::string refusal_body(const rejected& no);
// The same with the status of its error row, or with `overload_status` if it was refused for load.
http_reply refusal_reply(const rejected& no, int overload_status);

} // namespace baton::gateway
