// Counts whose source begins again at 0 in each of its lives, told as counts that never fall: what
// Prometheus calls a counter. Pure.
#pragma once

#include "schema/load_report.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace baton::gateway {

class rising_count {
public:
  // `now`: as the source says, in this life of it. Gives the sum of all lives.
  std::uint64_t take(std::uint64_t now) noexcept {
    if (now < last_) {
      next_life();
    }
    last_ = now;
    return told();
  }
  // What the source says next counts from 0.
  void next_life() noexcept { ended_ += std::exchange(last_, 0); }
  std::uint64_t told() const noexcept { return ended_ + last_; }

private:
  std::uint64_t ended_ = 0, last_ = 0;
};

// The counts of the heads of one pipeline, one life of it after the other.
class load_totals {
public:
  // Gives `now` with its counts summed up over all lives.
  load_report take(load_report now);
  // Another life of the head says what comes next.
  void next_life();

private:
  using counts = std::vector<rising_count>;
  struct sizes {
    counts each;
    rising_count sum;
  };
  static void take(counts& known, std::vector<std::uint64_t>& now);
  static void take(sizes& known, size_counts& now);
  static constexpr std::size_t single_counts = 15;

  std::array<rising_count, single_counts> single_;
  counts busy_; // by stage
  std::array<sizes, 3> sizes_;
};

} // namespace baton::gateway
