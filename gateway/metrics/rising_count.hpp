// Counters from sources whose counts begin at 0 in each incarnation: the totals never fall, as
// Prometheus requires of a counter. Pure.
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
  // `now`: the count of the source's current incarnation. Returns the sum over all incarnations.
  std::uint64_t take(std::uint64_t now) noexcept {
    if (now < last_) {
      next_incarnation();
    }
    last_ = now;
    return total();
  }
  // The source's next count begins at 0.
  void next_incarnation() noexcept { ended_ += std::exchange(last_, 0); }
  std::uint64_t total() const noexcept { return ended_ + last_; }

private:
  std::uint64_t ended_ = 0, last_ = 0;
};

// The counts of one pipeline's heads, over all their incarnations.
class load_totals {
public:
  // Returns `now` with its counts added over all incarnations.
  load_report take(load_report now);
  // The next report comes from a new incarnation of the head.
  void next_incarnation();

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
