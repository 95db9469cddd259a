// The deadline of an engine's step. A process detects that its own engine hangs in a step, and
// ends; its supervisor restarts it. A process that hangs as a whole is detected by its silence.
// Pure; time is an argument.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace baton::actors {

struct step_limits {
  std::chrono::milliseconds floor{2000};  // allowed for every step
  std::chrono::milliseconds most{60'000}; // maximum for any step, and limit without measurements
  double slack = 10;                      // factor over the slowest similar step
};

// For a rank of a group: its step also waits for the other ranks, which may hang. It must not be
// taken for a hanging one before its wait fails.
step_limits limits_in_group();

class step_watch {
public:
  using time_point = std::chrono::steady_clock::time_point;

  explicit step_watch(step_limits limits = {}) : limits_(limits) {}

  // Called by the thread that runs the steps.
  void begin(time_point now, std::uint32_t rows);
  void end(time_point now);
  // The current step is not timed, and does not count as a measurement.
  void forget() { began_ = 0; }

  // For any thread: how long the current step has run, if it is beyond its deadline.
  std::optional<std::chrono::milliseconds> overdue(time_point now) const;

private:
  using ticks = std::chrono::steady_clock::duration;

  std::optional<double> slowest_alike_seconds() const;

  step_limits limits_;
  // For steps of 2^i to 2^(i + 1) - 1 rows; 0: none has ended yet.
  std::array<double, 32> slowest_seconds_{};
  std::uint32_t rows_ = 1;
  std::atomic<ticks::rep> began_{0}; // 0: no step is running
  std::atomic<ticks::rep> due_{0};
};

} // namespace baton::actors
