#include "gateway/tracing/tracer.hpp"

#include <algorithm>
#include <iterator>
#include <random>
#include <utility>

namespace baton::gateway {
namespace {

std::uint64_t of_entropy() {
  static thread_local std::random_device entropy;
  return std::uniform_int_distribution<std::uint64_t>()(entropy);
}

void write_id(std::uint64_t bits, std::uint8_t* to) noexcept {
  for (int shift = 56; shift >= 0; shift -= 8) {
    *to++ = static_cast<std::uint8_t>(bits >> shift);
  }
}

// All zeroes are not an id: draws again, once in 2^64 times.
std::uint64_t draw(const std::function<std::uint64_t()>& random) {
  auto bits = random();
  while (bits == 0) {
    bits = random();
  }
  return bits;
}

tracer_settings whole(tracer_settings settings) {
  if (!settings.random) {
    settings.random = of_entropy;
  }
  return settings;
}

std::uint64_t unix_nanos_now() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

} // namespace

open_trace::open_trace(std::shared_ptr<tracer> to, request_trace begun)
    : data(std::move(begun)), to_(std::move(to)) {}

// A trace without an end is cancelled: the process exits.
open_trace::~open_trace() {
  data.failed_by(errc::cancelled, request_trace::instant::clock::now());
  to_->end(std::move(data));
}

tracer::tracer(tracer_settings settings) : settings_(whole(std::move(settings))) {}

trace_handle tracer::begin(const std::optional<trace_parent>& caller, std::string_view protocol,
                           instant now) {
  if (caller && !caller->is_sampled()) {
    return nullptr;
  }
  request_trace t;
  if (caller) {
    t.self = *caller;
    t.parent = caller->span;
  } else {
    write_id(draw(settings_.random), t.self.trace.data());
    write_id(draw(settings_.random), t.self.trace.data() + sizeof(std::uint64_t));
    t.self.flags = flag_sampled | flag_random;
    if (!is_in_share(t.self.trace, settings_.sampling_ratio)) {
      return nullptr;
    }
  }
  write_id(draw(settings_.random), t.self.span.data());
  t.protocol = protocol;
  t.arrived_at = now;
  t.arrived_unix_nanos = unix_nanos_now();
  {
    const std::lock_guard lock(mutex_);
    ++open_;
  }
  return std::make_shared<open_trace>(shared_from_this(), std::move(t));
}

void tracer::end(request_trace ended) {
  const auto spans = ended.span_count();
  bool wakes = false;
  {
    const std::lock_guard lock(mutex_);
    --open_;
    if (is_closed_ || waiting_.size() >= settings_.waiting_max) {
      dropped_ += spans;
    } else {
      waiting_.push_back(std::move(ended));
    }
    // Half full: there is time to send before it is full.
    wakes = is_draining_ || waiting_.size() == settings_.waiting_max / 2;
  }
  if (wakes) {
    news_.notify_one();
  }
}

std::vector<request_trace> tracer::take(std::size_t most, instant until, bool is_eager) {
  std::unique_lock lock(mutex_);
  const bool was_draining = is_draining_;
  news_.wait_until(lock, until, [&] {
    const bool is_done = !waiting_.empty() || open_ == 0;
    const bool has_many = is_eager && waiting_.size() >= settings_.waiting_max / 2;
    return (is_draining_ && (!was_draining || is_done)) || has_many;
  });
  const auto count = static_cast<std::ptrdiff_t>(std::min(most, waiting_.size()));
  std::vector<request_trace> taken(std::make_move_iterator(waiting_.begin()),
                                   std::make_move_iterator(waiting_.begin() + count));
  waiting_.erase(waiting_.begin(), waiting_.begin() + count);
  return taken;
}

void tracer::drain() {
  {
    const std::lock_guard lock(mutex_);
    is_draining_ = true;
  }
  news_.notify_one();
}

bool tracer::is_draining() const {
  const std::lock_guard lock(mutex_);
  return is_draining_;
}

bool tracer::is_drained() const {
  const std::lock_guard lock(mutex_);
  return is_draining_ && waiting_.empty() && open_ == 0;
}

void tracer::close() {
  std::deque<request_trace> left; // destroyed after the unlock
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  for (const auto& t : waiting_) {
    dropped_ += t.span_count();
  }
  left.swap(waiting_);
}

} // namespace baton::gateway
