#include "gateway/base/streams.hpp"

#include "schema/limits.hpp"

namespace baton::gateway {
namespace {

// Struct, deque slot and small strings of one event, rounded up.
constexpr std::size_t event_overhead_bytes = 256;

std::size_t bytes_of_chunk(const chunk& c) noexcept {
  std::size_t bytes =
      c.text.size() + c.ids.size() * sizeof(token_id) + c.embedding.size() * sizeof(float);
  for (const auto& detail : c.details) {
    bytes += sizeof(token_detail) + detail.chosen.text.size();
    for (const auto& entry : detail.top) {
      bytes += sizeof(logprob_entry) + entry.text.size();
    }
  }
  return bytes;
}

} // namespace

std::size_t bytes_of(const stream_event& e) noexcept {
  if (const auto* c = std::get_if<chunk>(&e)) {
    return event_overhead_bytes + bytes_of_chunk(*c);
  }
  if (const auto* i = std::get_if<inferred>(&e)) {
    return event_overhead_bytes + baton::bytes_of(*i);
  }
  // Answers of the tokenizer come alone and are bounded by their request.
  return event_overhead_bytes;
}

stream::stream(std::uint64_t number, std::size_t buffer_max_bytes, std::function<void()> wake)
    : number_(number), buffer_max_bytes_(buffer_max_bytes), wake_(std::move(wake)) {}

bool stream::push(stream_event e) {
  // The stream's bound replaces the link's: a slow reader must not hold link credit.
  if (auto* c = std::get_if<chunk>(&e)) {
    c->lease.reset();
  }
  const std::lock_guard lock(mutex_);
  if (is_detached_ || is_cut_) {
    return true;
  }
  const auto bytes = bytes_of(e);
  const bool fits = buffered_bytes_ + bytes <= buffer_max_bytes_ || events_.empty();
  if (fits) {
    buffered_bytes_ += bytes;
    events_.push_back(std::move(e));
  } else {
    events_.clear();
    buffered_bytes_ = 0;
    is_cut_ = true;
    events_.emplace_back(
        failed{{errc::slow_reader,
                "the client did not read its stream: the buffer of the stream is full",
                {}}});
  }
  return fits;
}

void stream::wake_reader() {
  const std::lock_guard lock(mutex_);
  if (wake_) {
    wake_();
  }
}

std::optional<stream_event> stream::next(std::uint32_t max_tokens) {
  const std::lock_guard lock(mutex_);
  if (events_.empty()) {
    return std::nullopt;
  }
  if (const auto* c = std::get_if<chunk>(&events_.front()); c && c->count > max_tokens) {
    return std::nullopt;
  }
  auto e = std::move(events_.front());
  events_.pop_front();
  const auto bytes = bytes_of(e);
  buffered_bytes_ -= std::min(buffered_bytes_, bytes);
  return e;
}

bool stream::is_detached() const {
  const std::lock_guard lock(mutex_);
  return is_detached_;
}

void stream::detach() {
  const std::lock_guard lock(mutex_);
  is_detached_ = true;
  wake_ = nullptr;
  events_.clear();
  buffered_bytes_ = 0;
}

void pushed_streams::wake_readers() {
  for (const auto& s : all_) {
    s->wake_reader();
  }
  all_.clear();
}

} // namespace baton::gateway
