// Writes the pieces of a worker model's answer over HTTP, in the format of one API: as they come,
// or all of them at the end. Pure; http_inference sends it.
#pragma once

#include "gateway/base/http_text.hpp"
#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <string>

namespace baton::gateway {

class worker_writer {
public:
  virtual ~worker_writer() = default;
  // Returns the next piece's part of the body. Requires: it has no failure. Errors: the format
  // cannot express it, and the answer ends with the error.
  virtual result<std::string> take(inferred piece) = 0;
  // Status, content type and headers, without a body. Called once, after the first piece, or after
  // the last one if nothing is sent before.
  virtual http_reply head() const = 0;
  // Whether pieces are sent as they come, each as a chunk.
  virtual bool is_streamed() const noexcept = 0;
  // The end of an answer that fails after its first piece. Empty: the format has none, and the
  // connection is cut before the answer's end.
  virtual std::string failure_tail(const error&) const { return {}; }
};

// Raw bytes from the handler (worker_reply.hpp), with its status and headers.
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
