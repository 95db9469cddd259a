#include "actors/restart.hpp"

#include <algorithm>
#include <array>

namespace baton::actors {

std::optional<std::chrono::milliseconds> restart_policy::on_exit(time_point now, bool was_settled) {
  using std::chrono::seconds;
  static constexpr std::array backoff{seconds(0), seconds(1), seconds(1), seconds(2),
                                      seconds(3), seconds(5), seconds(8), seconds(13)};
  while (!recent_.empty() && now - recent_.front() > limits_.period)
    recent_.pop_front();
  if (recent_.size() >= limits_.restarts_max)
    return std::nullopt;
  if (was_settled || recent_.empty())
    failures_ = 0;
  auto delay = backoff[std::min(failures_++, backoff.size() - 1)];
  recent_.push_back(now);
  ++total_;
  return delay;
}

std::uint32_t restart_policy::restarts_recent(time_point now) const noexcept {
  return static_cast<std::uint32_t>(std::count_if(
      recent_.begin(), recent_.end(), [&](auto at) { return now - at <= limits_.period; }));
}

} // namespace baton::actors
