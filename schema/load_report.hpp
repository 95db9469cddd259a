// A model's load: its head reports it to gateways and root for /metrics, /health and `cluster
// status`.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace baton {

// A histogram of sizes since the start.
struct size_counts {
#include "schema/members/size_counts.inc"

  void add(std::uint64_t size, std::span<const std::uint64_t> borders) {
    const auto at = std::lower_bound(borders.begin(), borders.end(), size) - borders.begin();
    counts.resize(borders.size() + 1);
    ++counts[static_cast<std::size_t>(at)];
    sum += size;
  }
};

// vLLM's buckets for its iterations, and TGI's for its batches.
inline constexpr std::array<std::uint64_t, 13> step_rows_borders{
    1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
inline constexpr std::array<std::uint64_t, 16> step_micros_borders{
    500,     1'000,   2'500,   5'000,     10'000,    20'000,    50'000,     100'000,
    200'000, 500'000, 750'000, 1'000'000, 2'500'000, 5'000'000, 10'000'000, 30'000'000};

// Head to gateways and root a few times a second.
struct load_report {
#include "schema/members/load_report.inc"
};

} // namespace baton
