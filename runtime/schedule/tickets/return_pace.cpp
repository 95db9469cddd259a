#include "runtime/schedule/tickets/return_pace.hpp"

#include <algorithm>
#include <cmath>

namespace baton::schedule {
namespace {

// Observations of this age have weight 1/e.
constexpr double memory_seconds = 10;

double seconds_between(return_pace::time_point from, return_pace::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

} // namespace

void return_pace::observe(std::uint64_t ended, bool is_full, time_point now) {
  if (observed_ && was_full_ && is_full) {
    const double seconds = seconds_between(*observed_, now);
    const double fades = std::exp(-seconds / memory_seconds);
    seconds_ = seconds_ * fades + seconds;
    endings_ = endings_ * fades + static_cast<double>(ended - ended_);
  }
  if (!is_full)
    promised_ = now;
  observed_ = now;
  ended_ = ended;
  was_full_ = is_full;
}

std::chrono::milliseconds return_pace::next(time_point now) {
  if (endings_ <= 0)
    return least_;
  const std::chrono::duration<double> apart{
      std::min(seconds_ / endings_, std::chrono::duration<double>(retry_after_max).count())};
  promised_ = std::max(promised_, now) + std::chrono::duration_cast<time_point::duration>(apart);
  // Requests at the maximum wait share the same time.
  promised_ = std::min(promised_, now + retry_after_max);
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(promised_ - now);
  return std::max(least_, wait);
}

} // namespace baton::schedule
