// Sizes for people, in the decimal units of disks and downloads.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string>

namespace baton::cluster {

// "1.2 GB"
inline std::string shown_bytes(std::uint64_t bytes) {
  constexpr std::array units{"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1000 && unit + 1 < units.size(); ++unit)
    value /= 1000;
  return unit == 0 || value >= 100 ? fmt::format("{:.0f} {}", value, units[unit])
                                   : fmt::format("{:.1f} {}", value, units[unit]);
}

} // namespace baton::cluster
