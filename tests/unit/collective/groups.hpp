// A memory file for a group, and values that make every rank's part in a sum visible.
#pragma once

#include "runtime/collective/shared_collective.hpp"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

namespace baton::testing {

struct group_file {
  int fd = -1;
  collective::group_memory memory;

  explicit group_file(std::uint32_t width) : fd(make_file()), memory(make_memory(fd, width)) {}
  ~group_file() { ::close(fd); }

  std::shared_ptr<const collective::group_area> open(std::uint64_t epoch) {
    const auto opened = memory.open_epoch({epoch});
    REQUIRE_MESSAGE(opened, opened.error().message);
    return area(epoch);
  }
  std::shared_ptr<const collective::group_area> area(std::uint64_t epoch) const {
    auto area = memory.area_of({epoch});
    REQUIRE_MESSAGE(area, area.error().message);
    return *std::move(area);
  }

private:
  static int make_file() { return ::memfd_create("group", MFD_CLOEXEC); }
  static collective::group_memory make_memory(int fd, std::uint32_t width) {
    auto made = collective::group_memory::create(fd, width);
    REQUIRE_MESSAGE(made, made.error().message);
    return *std::move(made);
  }
};

// Values of all magnitudes: another order of the sum gives other bits.
inline float value_of(std::uint32_t rank, std::size_t index, std::uint32_t call) {
  const auto mixed = static_cast<std::uint32_t>(index * 2654435761U + rank * 40503U + call * 977U);
  const float magnitude = mixed % 3 == 0 ? 1e6F : mixed % 3 == 1 ? 1.0F : 1e-6F;
  return magnitude * (static_cast<float>(mixed >> 8U) / 16777216.0F - 0.5F);
}

inline std::vector<float> values_of(std::uint32_t rank, std::size_t count, std::uint32_t call) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i)
    out[i] = value_of(rank, i, call);
  return out;
}

inline float sum_of(std::uint32_t width, std::size_t index, std::uint32_t call) {
  float sum = value_of(0, index, call);
  for (std::uint32_t rank = 1; rank < width; ++rank)
    sum += value_of(rank, index, call);
  return sum;
}

// Counts the values that are not the sum over the ranks.
inline std::size_t wrong_sums(std::span<const float> values, std::uint32_t width,
                              std::uint32_t call) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    wrong += values[i] != sum_of(width, i, call) ? 1U : 0U;
  return wrong;
}

} // namespace baton::testing
