// The outage of a pipeline: since when it cannot serve its streams, and which tickets its head must
// cancel when it is back, because their streams continue elsewhere. Pure: time is an argument.
#pragma once

#include "gateway/base/snapshot.hpp"

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

namespace baton::gateway {

// A restarted shard or head is back within 2 s, with the KV of its streams or with its copy's
// weights. Another pipeline computes everything again, so it pays to wait this long.
inline constexpr std::chrono::seconds move_patience{5};

// A head that misses a cancel still ends the ticket: no client resumes it (model.resume_window).
inline constexpr std::size_t deferred_cancels_max = 4096;

class outage {
public:
  using instant = std::chrono::steady_clock::time_point;

  void note(const pipeline_view& p, instant now) {
    if (serves_streams(p)) {
      since_.reset();
    } else if (!since_) {
      since_ = now;
    }
    is_for_good_ = p.card && p.card->phase == phase::stopped && !p.is_head_lost;
  }
  // A stopped pipeline has no node and is not waited for.
  bool is_long(instant now) const {
    return since_ && (is_for_good_ || now - *since_ >= move_patience);
  }

  void defer_cancel(ticket_id ticket) {
    deferred_.push_back(ticket);
    if (deferred_.size() > deferred_cancels_max) {
      deferred_.pop_front();
    }
  }
  std::deque<ticket_id> take_deferred() { return std::exchange(deferred_, {}); }

private:
  std::optional<instant> since_;
  bool is_for_good_ = false;
  std::deque<ticket_id> deferred_; // oldest first
};

} // namespace baton::gateway
