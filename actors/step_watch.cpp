#include "actors/step_watch.hpp"

#include <algorithm>

namespace baton::actors {

void step_watch::begin(time_point now, std::uint32_t rows) {
  rows_ = std::max(rows, 1u);
  using seconds = std::chrono::duration<double>;
  seconds allowed = limits_.most;
  if (slowest_row_seconds_ > 0)
    allowed = std::min<seconds>(allowed, limits_.floor +
                                             seconds(limits_.slack * slowest_row_seconds_ * rows_));
  due_ = (now + std::chrono::duration_cast<ticks>(allowed)).time_since_epoch().count();
  began_ = now.time_since_epoch().count();
}

void step_watch::end(time_point now) {
  const std::chrono::duration<double> took = now - time_point(ticks(began_.exchange(0)));
  slowest_row_seconds_ = std::max(slowest_row_seconds_, took.count() / rows_);
}

// A step that ends meanwhile is taken for one that runs only if it was overdue anyway.
std::optional<std::chrono::milliseconds> step_watch::overdue(time_point now) const {
  const auto due = due_.load();
  const auto began = began_.load();
  const auto at = now.time_since_epoch().count();
  if (began == 0 || at < due)
    return std::nullopt;
  return std::chrono::duration_cast<std::chrono::milliseconds>(ticks(at - began));
}

} // namespace baton::actors
