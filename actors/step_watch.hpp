// The deadline of an engine's step: an engine that hangs in one is found by its own process, which
// then ends; its supervisor starts the next. A process that hangs as a whole is found by its
// silence. Pure; time is given.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace baton::actors {

struct step_limits {
  std::chrono::milliseconds floor{5000}; // what every step may take: the machine may be busy
  std::chrono::milliseconds most{
      60'000}; // and what none may: the first ones, of which nothing is known
  double slack =
      3; // times as long per row as the slowest step so far: rows together never take longer
};

class step_watch {
public:
  using time_point = std::chrono::steady_clock::time_point;

  explicit step_watch(step_limits limits = {}) : limits_(limits) {}

  // By the thread that runs the steps.
  void begin(time_point now, std::uint32_t rows);
  void end(time_point now);

  // By any thread: for how long the present step has run, if that is beyond its deadline.
  std::optional<std::chrono::milliseconds> overdue(time_point now) const;

private:
  using ticks = std::chrono::steady_clock::duration;

  step_limits limits_;
  double slowest_row_seconds_ = 0; // 0: no step has ended yet
  std::uint32_t rows_ = 1;
  std::atomic<ticks::rep> began_{0}; // 0: none runs
  std::atomic<ticks::rep> due_{0};
};

} // namespace baton::actors
