// Pieces of a worker model's answer as an HTTP reply of raw bytes. Pure.
#pragma once

#include "gateway/base/http_text.hpp"
#include "schema/messages.hpp"
#include "schema/result.hpp"

namespace baton::gateway {

// Whether the piece can be told there. Errors: handler_failed (it has tensors, or a header that
// would break the reply's).
result<void> check_raw(const inferred& piece);

// Requires: check_raw(piece). Status, content type and headers are those that the handler has said;
// application/octet-stream if it has said none.
http_reply raw_reply(const inferred& piece);

} // namespace baton::gateway
