// Command-line options of the simulation.
#pragma once

#include <cstdint>
#include <optional>

namespace baton::sim {

struct options {
  std::optional<std::uint64_t> seed; // only this one, with logs
  std::uint64_t first = 1;
  std::uint64_t seeds = 500; // of each scenario, in ./check
  // Runs every parts-th of these seeds, and of the faults of a sweep, for as many parallel
  // processes.
  std::uint64_t part = 0;
  std::uint64_t parts = 1;
};
options& chosen();
// 0: none; printed when the process aborts.
std::uint64_t& running_seed();

} // namespace baton::sim
