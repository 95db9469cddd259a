#include "gateway/workers/worker_writer.hpp"

#include "gateway/workers/worker_reply.hpp"

#include <utility>

namespace baton::gateway {

result<std::string> raw_writer::take(inferred piece) {
  if (auto ok = check_raw(piece); !ok) {
    return ok.error();
  }
  auto body = std::move(piece.body);
  piece.body.clear();
  if (!std::exchange(has_head_, true)) {
    head_ = raw_reply(piece);
  }
  return body;
}

} // namespace baton::gateway
