// What the command line of the simulation chose.
#pragma once

#include <cstdint>
#include <optional>

namespace baton::sim {

struct options {
  std::optional<std::uint64_t> seed;
  std::uint64_t seeds = 150; // of each faulty scenario, in ./check
};
options& chosen();

} // namespace baton::sim
