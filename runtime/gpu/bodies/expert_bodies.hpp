// Products of a mixture when the host does not know the rows of each expert. Rows and experts form
// pairs; pairs of one expert form tiles of a few rows. A team multiplies a tile with the weights of
// one output and reads these once. Bodies as in kernel_bodies.hpp.
//
// Called by kernels_host.cpp and kernels_cuda_experts.cu.
#pragma once

#include "runtime/gpu/bodies/product_bodies.hpp"

namespace baton::gpu {

// There are kernels for tiles of 1, 4 and 8 pairs.
inline constexpr std::uint32_t tile_height_max = 8;
// Kernels for high tiles reserve registers that low tiles do not need.
inline std::uint32_t tile_height_of(std::uint64_t pairs, std::uint32_t rows,
                                    std::uint32_t experts) {
  return rows == 1 ? 1 : pairs <= 4 * std::uint64_t{experts} ? 4 : tile_height_max;
}

// The most tiles that `pairs` can form: each used expert may have one incomplete tile.
inline std::uint32_t tiles_max(std::uint64_t pairs, std::uint32_t experts, std::uint32_t height) {
  const std::uint64_t at_most = pairs < experts ? pairs : experts;
  return static_cast<std::uint32_t>((pairs + (height - 1) * at_most) / height);
}

// One team for all: each lane counts the pairs of one expert and places them after those of the
// previous experts.
template <class Team>
BATON_BODY void group_pairs(Team& team, const group_args& a) {
  const std::uint32_t pairs = a.rows * a.used;
  for (std::uint32_t e = team.lane; e < a.experts; e += team.lanes) {
    std::uint32_t count = 0;
    for (std::uint32_t p = 0; p < pairs; ++p)
      count += a.chosen[p] == e ? 1 : 0;
    a.counts[e] = count;
  }
  team.sync();
  std::uint32_t filled = 0;
  for (std::uint32_t e = 0; e < a.experts; ++e)
    filled += (a.counts[e] + a.height - 1) / a.height;
  for (std::uint32_t e = team.lane; e < a.experts; e += team.lanes) {
    std::uint32_t at = 0, tile = 0;
    for (std::uint32_t before = 0; before < e; ++before) {
      at += a.counts[before];
      tile += (a.counts[before] + a.height - 1) / a.height;
    }
    const std::uint32_t count = a.counts[e];
    for (std::uint32_t first = 0; first < count; first += a.height)
      a.tiles[tile++] = {e, at + first, count - first < a.height ? count - first : a.height};
    for (std::uint32_t p = 0; count > 0 && p < pairs; ++p)
      if (a.chosen[p] == e)
        a.pairs[at++] = p;
  }
  for (std::uint32_t tile = filled + team.lane; tile < a.tile_count; tile += team.lanes)
    a.tiles[tile] = {0, 0, 0};
  for (std::uint32_t p = team.lane; p < pairs; p += team.lanes) {
    const std::uint32_t* own = a.chosen + p / a.used * a.used;
    std::uint32_t before = 0;
    for (std::uint32_t k = 0; k < a.used; ++k)
      before += own[k] < a.chosen[p] ? 1 : 0;
    a.order[p / a.used * a.used + before] = p;
  }
}

// The pairs of one tile with one output of their expert. Requires: tiles are at most Rows high.
template <class T, class Output, std::uint32_t Rows, class Team>
BATON_BODY void multiply_tile(Team& team, const expert_args& a, std::uint32_t tile,
                              std::uint64_t output) {
  const expert_tile own = a.tiles[tile];
  if (own.count == 0)
    return;
  const matrix of = a.matrices[own.expert];
  const weights_location weights_at{of.values, of.scales, a.group, a.columns};
  const Output weights = Output::of(weights_at, output);
  const T* rows[Rows];
  BATON_UNROLL
  for (std::uint32_t r = 0; r < Rows; ++r) {
    const std::uint32_t pair = a.pairs[own.first + (r < own.count ? r : 0)];
    rows[r] = static_cast<const T*>(a.in) + std::uint64_t{pair / a.pairs_of_row} * a.columns;
  }
  float sum[Rows];
  sum_products<T, Output, Rows>(team, weights, a.columns, rows, own.count, sum);
  BATON_UNROLL
  for (std::uint32_t r = 0; r < Rows && r < own.count; ++r) {
    const std::uint64_t at = std::uint64_t{a.pairs[own.first + r]} * a.outputs + output;
    put_sum<T>(team, a, at, weights.scaled(team.sum(sum[r])));
  }
}

// Adds in the order of experts, as the host does.
template <class Team>
BATON_BODY void combine_row(Team& team, const combine_args& a, std::uint32_t row) {
  const std::uint32_t* order = a.order + std::uint64_t{row} * a.used;
  for (std::uint32_t i = team.lane; i < a.width; i += team.lanes) {
    float sum = 0;
    for (std::uint32_t k = 0; k < a.used; ++k) {
      float from = a.from[std::uint64_t{order[k]} * a.width + i];
      if (a.bias != nullptr)
        from += a.bias[std::uint64_t{a.chosen[order[k]]} * a.width + i];
      sum += a.weights[order[k]] * from;
    }
    a.out[std::uint64_t{row} * a.width + i] = sum;
  }
}

} // namespace baton::gpu
