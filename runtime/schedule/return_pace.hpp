// When those that are refused for load are to come again: one after the other, at the pace at which
// places became free of late. Told the same second, they would all come back in it, and all but a
// few be refused again, every second, at the cost of those that are served. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace baton::schedule {

class return_pace {
public:
  using time_point = std::chrono::steady_clock::time_point;

  // Never told less than `least`, nor while no pace is known.
  explicit return_pace(std::chrono::milliseconds least) : least_(least) {}

  // To be told a few times a second: how many tickets have ended since the beginning, and whether
  // newcomers have to wait. Only while they have to is the pace that of the server; else it is that
  // of the requests, and whoever was told to come later is not waited for.
  void observe(std::uint64_t ended, bool is_full, time_point now);

  // The wait of one that is refused now; the next one is told a later moment.
  std::chrono::milliseconds next(time_point now);

private:
  std::chrono::milliseconds least_;
  std::optional<time_point> observed_;
  std::uint64_t ended_ = 0;
  bool was_full_ = false;
  double seconds_ = 0;    // of full time, the older the less
  double endings_ = 0;    // in them
  time_point promised_{}; // the place that the last one was told of
};

// The longest wait that anybody is told.
inline constexpr std::chrono::seconds retry_after_max{30};

} // namespace baton::schedule
