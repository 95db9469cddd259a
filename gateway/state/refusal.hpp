// What a client hears of a refusal, whichever door it came through and whoever refuses: why, when
// to come again, and how many requests were before it. Pure.
#pragma once

#include "gateway/base/http_text.hpp"
#include "gateway/state/board.hpp"

#include <string>
#include <string_view>

namespace baton::gateway {

// A refusal by the gateway itself, with the queue as the heads of this model (if there is none
// such, of the first one) have last described it.
rejected refuse_here(error reason, const snapshot& now, std::string_view model = {});

// OpenAI's error object; `retry_after` in it if it may be retried, and `queue_position` if it was
// refused for load.
std::string refusal_body(const rejected& no);
// The same under the status of its row, or under `overload_status` if it was refused for load.
http_reply refusal_reply(const rejected& no, int overload_status);

} // namespace baton::gateway
