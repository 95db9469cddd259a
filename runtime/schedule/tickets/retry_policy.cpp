#include "runtime/schedule/tickets/retry_policy.hpp"

#include <algorithm>

namespace baton::schedule {

std::optional<std::chrono::milliseconds> retry_policy::on_end(time_point now, bool was_of_use) {
  while (!recent_.empty() && now - recent_.front() > limits_.period)
    recent_.pop_front();
  if (recent_.size() >= limits_.attempts_max)
    return std::nullopt;
  if (was_of_use || recent_.empty())
    failures_ = 0;
  const auto delay = back_off[std::min(failures_++, back_off.size() - 1)] * unit_;
  recent_.push_back(now);
  ++total_;
  return delay;
}

void retry_policy::on_success() {
  recent_.clear();
  failures_ = 0;
}

std::uint32_t retry_policy::attempts_recent(time_point now) const noexcept {
  return static_cast<std::uint32_t>(std::count_if(
      recent_.begin(), recent_.end(), [&](auto at) { return now - at <= limits_.period; }));
}

} // namespace baton::schedule
