#include "actors/step_watch.hpp"

#include "runtime/collective/collective.hpp"

#include <algorithm>
#include <bit>

namespace baton::actors {
namespace {

// The size class: log2 of the number of rows.
std::size_t size_of(std::uint32_t rows) {
  return static_cast<std::size_t>(std::bit_width(rows)) - 1;
}

} // namespace

// The smallest estimate from earlier steps: rows together never take longer than one by one, and
// more rows take at least as long as fewer.
std::optional<double> step_watch::slowest_alike_seconds() const {
  std::optional<double> least;
  for (std::size_t size = 0; size < slowest_seconds_.size(); ++size) {
    if (slowest_seconds_[size] == 0)
      continue;
    const auto times = std::max(1.0, static_cast<double>(rows_) / static_cast<double>(1u << size));
    least =
        std::min(least.value_or(slowest_seconds_[size] * times), slowest_seconds_[size] * times);
  }
  return least;
}

step_limits limits_in_group() {
  step_limits limits;
  limits.floor += collective::wait_max;
  return limits;
}

void step_watch::begin(time_point now, std::uint32_t rows) {
  rows_ = std::max(rows, 1u);
  using seconds = std::chrono::duration<double>;
  seconds allowed = limits_.most;
  if (const auto slowest = slowest_alike_seconds())
    allowed = std::clamp<seconds>(seconds(limits_.slack * *slowest), limits_.floor, limits_.most);
  due_ = (now + std::chrono::duration_cast<ticks>(allowed)).time_since_epoch().count();
  began_ = now.time_since_epoch().count();
}

void step_watch::end(time_point now) {
  const std::chrono::duration<double> took = now - time_point(ticks(began_.exchange(0)));
  auto& slowest = slowest_seconds_[size_of(rows_)];
  slowest = std::max(slowest, took.count());
}

// A step that ends meanwhile may be reported only if it was overdue anyway.
std::optional<std::chrono::milliseconds> step_watch::overdue(time_point now) const {
  const auto due = due_.load();
  const auto began = began_.load();
  const auto at = now.time_since_epoch().count();
  if (began == 0 || at < due)
    return std::nullopt;
  return std::chrono::duration_cast<std::chrono::milliseconds>(ticks(at - began));
}

} // namespace baton::actors
