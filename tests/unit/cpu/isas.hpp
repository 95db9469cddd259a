// The instruction sets that this machine can run, and comparison of results by their bits.
#pragma once

#include "runtime/cpu/kernels/kernels.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace baton::testing {

// Reports once which instruction sets this CPU lacks; comparisons skip them.
inline std::vector<cpu::isa> available_isas() {
  static const std::vector<cpu::isa> found = [] {
    std::vector<cpu::isa> out;
    for (const auto which : cpu::isas)
      if (cpu::is_available(which))
        out.push_back(which);
      else
        MESSAGE("not tested, for this CPU cannot run it: ", std::string(cpu::name_of(which)));
    return out;
  }();
  return found;
}

// Index of the first float whose bits differ; -1 if there is none.
inline std::ptrdiff_t first_difference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size())
    return 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i]))
      return static_cast<std::ptrdiff_t>(i);
  return -1;
}

inline std::vector<float> random_floats(std::size_t count, std::uint32_t seed, float scale = 1) {
  std::mt19937 random(seed);
  std::vector<float> out(count);
  for (float& x : out) // std::normal_distribution differs between libraries
    x = scale * (static_cast<float>(random() % 20001) - 10000.0F) / 10000.0F;
  return out;
}

} // namespace baton::testing
