// Pieces of a worker model's answer as an HTTP reply of raw bytes. Pure.
#pragma once

#include "gateway/request/response_writer.hpp"
#include "schema/messages.hpp"
#include "schema/result.hpp"

namespace baton::gateway {

// Whether the piece fits into such a reply. Errors: handler_failed (it has tensors, or a header
// that would break the reply's).
result<void> check_raw(const inferred& piece);

// Requires: check_raw(piece). Status, content type and headers are the handler's; the default type
// is application/octet-stream.
http_reply raw_reply(const inferred& piece);

// Raw bytes as the handler gives them (raw_reply), with its status and headers.
class raw_writer final : public worker_writer {
public:
  result<std::string> take(inferred piece) override;
  http_reply head() const override { return head_; }
  bool is_streamed() const noexcept override { return true; }

private:
  http_reply head_;
  bool has_head_ = false;
};

} // namespace baton::gateway
