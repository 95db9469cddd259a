// The deadline of an engine's step: an engine that hangs in one is found by its own process, which
// then ends; its supervisor starts the next. A process that hangs as a whole is found by its
// silence. Pure; time is given.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace baton::actors {

struct step_limits {
  std::chrono::milliseconds floor{2000}; // what every step may take
  std::chrono::milliseconds most{
      60'000};       // and what none may: the first ones, of which nothing is known
  double slack = 10; // times as long as the slowest like it
};

class step_watch {
public:
  using time_point = std::chrono::steady_clock::time_point;

  explicit step_watch(step_limits limits = {}) : limits_(limits) {}

  // By the thread that runs the steps.
  void begin(time_point now, std::uint32_t rows);
  void end(time_point now);
  // The present one is not waited for any more, and no measure for others.
  void forget() { began_ = 0; }

  // By any thread: for how long the present step has run, if that is beyond its deadline.
  std::optional<std::chrono::milliseconds> overdue(time_point now) const;

private:
  using ticks = std::chrono::steady_clock::duration;

  std::optional<double> slowest_alike_seconds() const;

  step_limits limits_;
  // Of steps of 2^i to 2^(i + 1) - 1 rows; 0: none has ended yet.
  std::array<double, 32> slowest_seconds_{};
  std::uint32_t rows_ = 1;
  std::atomic<ticks::rep> began_{0}; // 0: none runs
  std::atomic<ticks::rep> due_{0};
};

} // namespace baton::actors
