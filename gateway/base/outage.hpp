// While a pipeline cannot go on with its streams: since when, and which tickets its head is to
// forget once it hears again, because their streams go on elsewhere. Pure: time is given.
#pragma once

#include "gateway/base/snapshot.hpp"

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

namespace baton::gateway {

// A shard or a head that is started again is back within 2 s, with the KV of its streams or with
// its copy's weights: elsewhere all of it is computed again, so that who can wait so long gains.
inline constexpr std::chrono::seconds move_patience{5};

// A head that never hears of them ends them all the same: nobody asks it for them
// (model.resume_window).
inline constexpr std::size_t cancels_owed_max = 4096;

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
  // A pipeline without a node is not waited for.
  bool is_long(instant now) const {
    return since_ && (is_for_good_ || now - *since_ >= move_patience);
  }

  void owe_cancel(ticket_id ticket) {
    owed_.push_back(ticket);
    if (owed_.size() > cancels_owed_max) {
      owed_.pop_front();
    }
  }
  std::deque<ticket_id> take_owed() { return std::exchange(owed_, {}); }

private:
  std::optional<instant> since_;
  bool is_for_good_ = false;
  std::deque<ticket_id> owed_; // oldest first
};

} // namespace baton::gateway
