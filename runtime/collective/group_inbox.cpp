#include "runtime/collective/group_inbox.hpp"

#include <algorithm>
#include <utility>

namespace baton::collective {

group_inbox::group_inbox(std::uint32_t width) : peers_(width) {}

void group_inbox::put(group_values&& m) {
  {
    std::lock_guard lock(mutex_);
    latest_ = std::max(latest_, m.epoch);
    if (m.epoch == epoch_ && m.rank < peers_.size() && m.meeting > 0)
      peers_[m.rank].last = std::move(m);
  }
  has_news_.notify_all();
}

void group_inbox::set_up(std::uint32_t rank, bool is_up) {
  {
    std::lock_guard lock(mutex_);
    auto& peer = peers_.at(rank);
    peer.is_up = is_up;
    peer.is_lost |= peer.is_awaited && !is_up;
  }
  has_news_.notify_all();
}

void group_inbox::begin(epoch_id epoch) {
  std::lock_guard lock(mutex_);
  epoch_ = epoch;
  for (auto& s : peers_) {
    s.last.reset();
    s.is_awaited = s.is_lost = false;
  }
}

result<group_values> group_inbox::await(std::uint32_t rank, std::uint64_t meeting,
                                        clock::time_point until) {
  std::unique_lock lock(mutex_);
  peer_state& from = peers_.at(rank);
  from.is_awaited = true;
  const auto has_come = [&] { return from.last && from.last->meeting == meeting; };
  const bool is_in_time = has_news_.wait_until(
      lock, until, [&] { return latest_ > epoch_ || has_come() || from.is_down(); });
  if (latest_ > epoch_)
    return fail(errc::stale_epoch, "epoch {} of a group is over", epoch_.value);
  if (has_come())
    return *std::exchange(from.last, std::nullopt);
  if (is_in_time)
    return fail(errc::link_down, "rank {} of the group is gone", rank);
  return fail(errc::deadline_exceeded, "rank {} of the group did not come in time", rank);
}

result<void> group_inbox::look(std::uint32_t rank) {
  const std::lock_guard lock(mutex_);
  if (latest_ > epoch_)
    return fail(errc::stale_epoch, "epoch {} of a group is over", epoch_.value);
  if (peers_.at(rank).is_down())
    return fail(errc::link_down, "rank {} of the group is gone", rank);
  return {};
}

} // namespace baton::collective
