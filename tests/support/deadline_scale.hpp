// The factor by which tests wait longer on this machine: ./check measures it once and passes it in
// the environment (deadline_scale.py). For deadlines that a test must not reach, not for those
// whose expiry it checks.
#pragma once

#include <chrono>
#include <cstdlib>

namespace baton::testing {

inline constexpr double deadline_scale_max = 20;

// Parses the variable; 1 for anything else than a number of at least 1.
inline double deadline_scale_of(const char* text) {
  const double parsed = text == nullptr ? 1 : std::strtod(text, nullptr);
  if (!(parsed >= 1)) // also false for NaN
    return 1;
  return parsed > deadline_scale_max ? deadline_scale_max : parsed;
}

inline std::chrono::milliseconds scaled(std::chrono::milliseconds deadline) {
  const double scale = deadline_scale_of(std::getenv("BATON_TEST_DEADLINE_SCALE"));
  return std::chrono::duration_cast<std::chrono::milliseconds>(deadline * scale);
}

} // namespace baton::testing
