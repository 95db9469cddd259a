#include "gateway/request/answer_position.hpp"

#include <algorithm>

namespace baton::gateway {

answer_position::answer_position(const reply_identity& who,
                                 const std::optional<stream_position>& from)
    : now_(from.value_or(stream_position())) {
  now_.ticket = who.ticket;
  now_.resume_key = who.resume_key;
  now_.from.resize(1);
  now_.text_bytes.resize(1);
  bytes_had_ = now_.text_bytes[0];
  had_end_ = now_.from[0].has_finish;
  had_any_ = had_end_ || now_.from[0].index > 0;
}

std::size_t answer_position::advance(const chunk& c) {
  const auto had = static_cast<std::size_t>(std::min<std::uint64_t>(bytes_had_, c.text.size()));
  bytes_had_ -= had;
  auto& at = now_.from[0];
  at.index = std::max(at.index, c.index);
  at.has_finish = at.has_finish || c.finish != finish::none;
  now_.text_bytes[0] += c.text.size() - had;
  return had;
}

void answer_position::moved_to(const granted& g) {
  now_.ticket = g.ticket;
  now_.resume_key = g.resume_key;
}

} // namespace baton::gateway
