// Shared by the tests of the kernels' bodies: numbers of lanes, comparisons with sums in double,
// and a row of heads.
#pragma once

#include "runtime/gpu/bodies/kernel_bodies.hpp"
#include "tests/unit/cpu/isas.hpp"
#include "tests/unit/gpu/thread_team.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <span>
#include <vector>

namespace baton::testing {

using namespace baton::gpu;

inline constexpr std::uint32_t lane_counts[] = {1, 3, 8};
// Sums of float32 over a few hundred terms, in any order.
inline constexpr double near = 2e-5;

inline void check_all_near(std::span<const float> found, const std::vector<double>& expected,
                           double bound = near) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    REQUIRE(std::abs(double{found[i]} - expected[i]) <= bound * (1 + std::abs(expected[i])));
  }
}

inline double norm_scale(std::span<const float> row, double epsilon) {
  double squares = 0;
  for (const float x : row)
    squares += double{x} * double{x};
  return 1 / std::sqrt(squares / static_cast<double>(row.size()) + epsilon);
}

// A row of queries, keys and values, and the pages that it is written to.
struct rotation_case {
  static constexpr std::uint32_t heads = 4, kv_heads = 2, size = 12, positions = 4, blocks = 3,
                                 dimensions = 8, position = 6, block = 2;
  std::vector<float> row = random_floats((heads + 2 * kv_heads) * size, 5);
  std::vector<float> bias = random_floats((heads + 2 * kv_heads) * size, 6);
  std::vector<float> query_norm = random_floats(size, 7), key_norm = random_floats(size, 8);
  std::vector<float> cosine, sine;
  std::vector<float> keys = std::vector<float>(blocks * kv_heads * positions * size, -77);
  std::vector<float> values = keys;
  std::uint32_t at[1] = {position};
  std::uint32_t slot_mapping[1] = {block * positions + position % positions};
  rotate_args args{};

  rotation_case() {
    for (std::uint32_t p = 0; p <= position; ++p)
      for (std::uint32_t i = 0; i < dimensions / 2; ++i) {
        cosine.push_back(std::cos(0.3F * static_cast<float>(p * (i + 1))));
        sine.push_back(std::sin(0.3F * static_cast<float>(p * (i + 1))));
      }
    args.kind = element::f32;
    args.rows = 1;
    args.heads = heads;
    args.bias = bias.data();
    args.query_norm = query_norm.data();
    args.key_norm = key_norm.data();
    args.cosine = cosine.data();
    args.sine = sine.data();
    args.dimensions = dimensions;
    args.epsilon = 1e-6F;
    args.query_scale = 0.25F;
    args.positions = at;
    args.slot_mapping = slot_mapping;
    args.kv = {element::f32, keys.data(), values.data(), positions, kv_heads, size};
  }

  // The expected head `h` of the row, by the definition.
  std::vector<double> expected(std::uint32_t h) const {
    std::vector<float> biased(size);
    for (std::uint32_t i = 0; i < size; ++i)
      biased[i] = row[h * size + i] + (args.bias != nullptr ? bias[h * size + i] : 0);
    if (h >= heads + kv_heads)
      return {biased.begin(), biased.end()};
    const float* gain = h < heads ? args.query_norm : args.key_norm;
    std::vector<double> x(biased.begin(), biased.end());
    if (gain != nullptr)
      for (std::uint32_t i = 0; i < size; ++i)
        x[i] = double{biased[i]} * norm_scale(biased, 1e-6) * double{gain[i]};
    auto y = x;
    for (std::uint32_t i = 0; args.cosine != nullptr && i < dimensions / 2; ++i) {
      const auto first = args.rotates_pairs ? 2 * i : i;
      const auto second = args.rotates_pairs ? 2 * i + 1 : i + dimensions / 2;
      const double angle = double{0.3F * static_cast<float>(position * (i + 1))};
      y[first] = x[first] * std::cos(angle) - x[second] * std::sin(angle);
      y[second] = x[second] * std::cos(angle) + x[first] * std::sin(angle);
    }
    for (auto& each : y)
      each *= h < heads ? 0.25 : 1.0;
    return y;
  }
};

} // namespace baton::testing
