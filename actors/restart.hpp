// When a dead child is started again, and when its supervisor gives up: Erlang's restart intensity
// (OTP design principles, "Supervisor Behaviour") with TorchServe's back-off of 0, 1, 1, 2, 3, 5
// ... seconds between lives that came to nothing. Pure; time is given.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>

namespace baton::actors {

using time_point = std::chrono::steady_clock::time_point;

// More than `restarts_max` restarts within `period` is a crash loop.
struct restart_intensity {
  std::uint32_t restarts_max = 5;
  std::chrono::seconds period{30};
};

// What each supervisor of the tree allows: the nearer to the streams, the more patient.
inline constexpr restart_intensity gateway_intensity{10, std::chrono::seconds(60)};
inline constexpr restart_intensity head_intensity{5, std::chrono::seconds(60)};
inline constexpr restart_intensity agent_intensity{3, std::chrono::seconds(300)};
inline constexpr restart_intensity pipeline_intensity{5, std::chrono::seconds(30)};
// What a request makes of a handler is not its fault: two ends are one request's (quarantine).
inline constexpr restart_intensity worker_intensity{20, std::chrono::seconds(60)};

// So long ready, and a life was of use.
inline constexpr std::chrono::milliseconds settled_after{2000};

class restart_policy {
public:
  explicit restart_policy(restart_intensity limits) : limits_(limits) {}

  // A child went down at `now`: how long to wait before it is started again, or nothing if that
  // would be one restart too many within the period. A life that was of use for a while
  // (`was_settled`) is followed by the next one at once: what ended it is not its start.
  std::optional<std::chrono::milliseconds> on_exit(time_point now, bool was_settled);

  std::uint32_t restarts_total() const noexcept { return total_; }
  // Within the period that ends at `now`.
  std::uint32_t restarts_recent(time_point now) const noexcept;
  const restart_intensity& limits() const noexcept { return limits_; }

private:
  restart_intensity limits_;
  std::deque<time_point> recent_; // restarts within the period, oldest first; at most restarts_max
  std::size_t failures_ = 0;      // exits since one that was settled, within the period
  std::uint32_t total_ = 0;
};

} // namespace baton::actors
