// Retry times for requests refused for load: staggered at the rate at which slots recently became
// free. With equal times all would return together and almost all would be refused again, at the
// cost of running requests. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace baton::schedule {

class return_pace {
public:
  using time_point = std::chrono::steady_clock::time_point;

  // Never less than `least`, which is also returned while the rate is unknown.
  explicit return_pace(std::chrono::milliseconds least) : least_(least) {}

  // Call it a few times a second, with the total of ended tickets and whether newcomers must wait.
  // Only while they must is the measured rate that of the server; otherwise it is the arrival rate,
  // and earlier promises are dropped.
  void observe(std::uint64_t ended, bool is_full, time_point now);

  // The wait of a request refused now; each further request gets a later time.
  std::chrono::milliseconds next(time_point now);

private:
  std::chrono::milliseconds least_;
  std::optional<time_point> observed_;
  std::uint64_t ended_ = 0;
  bool was_full_ = false;
  double seconds_ = 0;    // of full time, with older time decayed
  double endings_ = 0;    // tickets ended in that time
  time_point promised_{}; // the latest retry time that was assigned
};

// The maximum wait.
inline constexpr std::chrono::seconds retry_after_max{30};

} // namespace baton::schedule
