#include "sdk/cpp/inbox.hpp"

#include "schema/limits.hpp"

#include <algorithm>

namespace baton::sdk {
namespace {

// Unread bytes of one stream; a whole answer of the longest context is smaller.
constexpr std::size_t inbox_bytes_max = limits::chunk_bytes_max;

} // namespace

inbox::inbox(message question) : question_(std::move(question)) {
  if (const auto* g = std::get_if<generate>(&*question_))
    positions_.resize(g->terms.choices);
  is_inference_ = std::holds_alternative<infer>(*question_);
}

void inbox::grant(const granted& m) {
  ticket = m.ticket;
  resume_key_ = m.resume_key;
  question_.reset();
}

result<void> inbox::put(message m, std::size_t bytes) {
  if (const auto* part = std::get_if<chunk>(&m)) {
    if (part->choice >= positions_.size())
      return fail(errc::bad_frame, "a chunk of choice {} of {}", part->choice, positions_.size());
    if (positions_[part->choice].has_finish)
      return {}; // a resume repeats the last chunk
    positions_[part->choice] = {part->index, part->finish != finish::none};
    is_over_ = std::all_of(positions_.begin(), positions_.end(),
                           [](const auto& p) { return p.has_finish; });
  } else {
    const auto* piece = std::get_if<inferred>(&m);
    has_begun_ = piece != nullptr;
    is_over_ = piece == nullptr || piece->is_last;
    question_.reset();
  }
  if (is_forgotten || ended)
    return {};
  if (unread_bytes_ + bytes > inbox_bytes_max && !arrived_.empty())
    return fail(errc::slow_reader, "{} bytes of this stream wait unread, its bound is {}",
                unread_bytes_, inbox_bytes_max);
  unread_bytes_ += bytes;
  arrived_.push_back({std::move(m), bytes});
  return {};
}

std::optional<message> inbox::take() {
  if (arrived_.empty())
    return {};
  auto first = std::move(arrived_.front());
  arrived_.pop_front();
  unread_bytes_ -= first.size_bytes;
  return std::move(first.content);
}

std::optional<message> inbox::rest(std::uint64_t request) {
  if (is_over_)
    return {};
  if (has_begun_) {
    is_over_ = true;
    ended = fail(errc::link_down, "the gateway was lost within the answer");
    return {};
  }
  if (!ticket)
    return is_forgotten ? std::nullopt : question_;
  resume m;
  m.request = request;
  m.ticket = ticket;
  m.resume_key = resume_key_;
  m.from = positions_;
  return m;
}

} // namespace baton::sdk
