// When a failed attempt is repeated, and when to give up: Erlang's restart intensity (OTP design
// principles, "Supervisor Behaviour"). Between failed attempts TorchServe's back-off applies: 0, 1,
// 1, 2, 3, 5, 8 and 13 seconds or other units. Used for restarts of processes
// (actors/supervision/restart.hpp), epochs of a pipeline (actors/epoch_retries.hpp) and moves of
// layers (cluster/roles/root/plan_controller.hpp). Pure; time is an argument.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>

namespace baton::schedule {

// More than `attempts_max` further attempts within `period` exceed the limit.
struct retry_intensity {
  std::uint32_t attempts_max = 5;
  std::chrono::seconds period{30};
};

class retry_policy {
public:
  using time_point = std::chrono::steady_clock::time_point;

  explicit retry_policy(retry_intensity limits, std::chrono::seconds unit = std::chrono::seconds(1))
      : limits_(limits), unit_(unit) {}

  // An attempt ended at `now`: returns the pause before the next one, or nothing if the limit is
  // exceeded. After a successful run (`was_of_use`) the next attempt follows at once, because its
  // start did not cause the failure.
  std::optional<std::chrono::milliseconds> on_end(time_point now, bool was_of_use);
  // An attempt succeeded: earlier failures no longer count.
  void on_success();

  std::uint32_t attempts_total() const noexcept { return total_; }
  // Within the period that ends at `now`.
  std::uint32_t attempts_recent(time_point now) const noexcept;
  const retry_intensity& limits() const noexcept { return limits_; }
  // The longest pause, also used for attempts beyond the limit.
  std::chrono::milliseconds pause_max() const noexcept { return pause_max(unit_); }
  static constexpr std::chrono::milliseconds pause_max(std::chrono::seconds unit) noexcept {
    return back_off.back() * unit;
  }

private:
  static constexpr std::array back_off{0, 1, 1, 2, 3, 5, 8, 13}; // units

  retry_intensity limits_;
  std::chrono::seconds unit_;
  std::deque<time_point> recent_; // attempts within the period, oldest first; at most attempts_max
  std::size_t failures_ = 0;      // failed attempts in a row, within the period
  std::uint32_t total_ = 0;
};

} // namespace baton::schedule
