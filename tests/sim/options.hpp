// What the command line of the simulation chose.
#pragma once

#include <cstdint>
#include <optional>

namespace baton::sim {

struct options {
  std::optional<std::uint64_t> seed; // this one alone, loudly
  std::uint64_t first = 1;
  std::uint64_t seeds = 500; // of each scenario, in ./check
  // Of these, and of the faults of a sweep, every parts-th, for as many processes side by side.
  std::uint64_t part = 0;
  std::uint64_t parts = 1;
};
options& chosen();
// 0: none; said when the process aborts.
std::uint64_t& running_seed();

} // namespace baton::sim
