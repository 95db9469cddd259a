// The position of a stream with one answer, for APIs whose positions count bytes of text.
#pragma once

#include "gateway/base/stream_position.hpp"
#include "gateway/request/response_writer.hpp"

#include <cstdint>
#include <optional>

namespace baton::gateway {

// After a resumption the chunks still start at the beginning of the answer. The client has the
// first of them already: they are read, and not written.
class answer_position {
public:
  // `from`: the position that a resuming client has reached.
  answer_position(const reply_identity& who, const std::optional<stream_position>& from);

  // Whether the client had some of the answer, or its end, when it resumed.
  bool had_any() const noexcept { return had_any_; }
  bool had_end() const noexcept { return had_end_; }
  // Whether the next text is, at least in part, text that the client has.
  bool is_behind() const noexcept { return bytes_had_ > 0; }

  // Moves behind the chunk. Returns how many bytes of its text the client has.
  std::size_t advance(const chunk& c);
  void moved_to(const granted& g);
  const stream_position& now() const noexcept { return now_; }

private:
  stream_position now_;
  std::uint64_t bytes_had_ = 0; // of text that is still to be read
  bool had_any_, had_end_;
};

} // namespace baton::gateway
