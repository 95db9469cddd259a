// How the pieces of a worker model's answer are told over HTTP, in the words of one API: as they
// come, or all of them at the end. Pure; http_inference sends it.
#pragma once

#include "gateway/base/http_text.hpp"
#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <string>

namespace baton::gateway {

class worker_speaker {
public:
  virtual ~worker_speaker() = default;
  // What the next piece brings to the answer's body. Requires: it has no failure. Errors: what
  // cannot be told here, with which the answer ends.
  virtual result<std::string> take(inferred piece) = 0;
  // Status, content type and headers, without a body: asked once, when the first piece has been
  // taken, or the last one where nothing goes out before.
  virtual http_reply head() const = 0;
  // Pieces go out as they come, each a chunk of its own.
  virtual bool goes_piecewise() const noexcept = 0;
  // The end of an answer that fails behind its first piece; empty: it has no words for that, and
  // the connection is cut before the answer's end.
  virtual std::string last_words(const error&) const { return {}; }
};

// Raw bytes as the handler gives them (worker_reply.hpp), with its status and headers.
class raw_speaker final : public worker_speaker {
public:
  result<std::string> take(inferred piece) override;
  http_reply head() const override { return head_; }
  bool goes_piecewise() const noexcept override { return true; }

private:
  http_reply head_;
  bool has_head_ = false;
};

} // namespace baton::gateway
