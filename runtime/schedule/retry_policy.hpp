// When what has failed is tried again, and when it has failed too often: Erlang's restart intensity
// (OTP design principles, "Supervisor Behaviour") with TorchServe's back-off of 0, 1, 1, 2, 3, 5, 8
// and 13 seconds, or units, between attempts that came to nothing. For whatever tries again by
// itself: restarts of processes (actors/restart.hpp), epochs of a pipeline
// (actors/epoch_retries.hpp), moves of layers (cluster/roles/plan_keeper.hpp). Pure; time is given.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>

namespace baton::schedule {

// More than `attempts_max` further attempts within `period` are too many.
struct retry_intensity {
  std::uint32_t attempts_max = 5;
  std::chrono::seconds period{30};
};

class retry_policy {
public:
  using time_point = std::chrono::steady_clock::time_point;

  explicit retry_policy(retry_intensity limits, std::chrono::seconds unit = std::chrono::seconds(1))
      : limits_(limits), unit_(unit) {}

  // An attempt ended at `now`: how long to wait before the next one, or nothing if that would be
  // one too many within the period. One that was of use for a while is followed by the next at
  // once: what ended it is not its start.
  std::optional<std::chrono::milliseconds> on_end(time_point now, bool was_of_use);
  // It works: what failed before counts no more.
  void on_success();

  std::uint32_t attempts_total() const noexcept { return total_; }
  // Within the period that ends at `now`.
  std::uint32_t attempts_recent(time_point now) const noexcept;
  const retry_intensity& limits() const noexcept { return limits_; }
  // The longest pause. Whoever goes on beyond the intensity does so with it.
  std::chrono::milliseconds pause_max() const noexcept { return pause_max(unit_); }
  static constexpr std::chrono::milliseconds pause_max(std::chrono::seconds unit) noexcept {
    return back_off.back() * unit;
  }

private:
  static constexpr std::array back_off{0, 1, 1, 2, 3, 5, 8, 13}; // units

  retry_intensity limits_;
  std::chrono::seconds unit_;
  std::deque<time_point> recent_; // attempts within the period, oldest first; at most attempts_max
  std::size_t failures_ = 0;      // ends since one that was of use, within the period
  std::uint32_t total_ = 0;
};

} // namespace baton::schedule
