// By how much tests wait longer on this machine: ./check measures it once and passes it in the
// environment (deadline_scale.py). For deadlines that a test must not reach, not for those whose
// passing it looks at.
#pragma once

#include <chrono>
#include <cstdlib>

namespace baton::testing {

inline constexpr double deadline_scale_max = 20;

// What the variable says; 1 for what is no number of at least that.
inline double deadline_scale_of(const char* text) {
  const double told = text == nullptr ? 1 : std::strtod(text, nullptr);
  if (!(told >= 1)) // not a number as well
    return 1;
  return told > deadline_scale_max ? deadline_scale_max : told;
}

inline std::chrono::milliseconds scaled(std::chrono::milliseconds deadline) {
  const double scale = deadline_scale_of(std::getenv("BATON_TEST_DEADLINE_SCALE"));
  return std::chrono::duration_cast<std::chrono::milliseconds>(deadline * scale);
}

} // namespace baton::testing
