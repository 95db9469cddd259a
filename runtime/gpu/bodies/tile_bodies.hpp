// Products of many rows with quantised weights that are not expanded in memory. The device reads a
// weight once for up to 64 rows, and multiplies on its tensor cores.
//
// A warp computes 32 outputs with mma.m16n8k16 (PTX ISA, warp-level matrix instructions). Each lane
// passes four columns of a row of weights and of a row of activations. A sum may take its columns
// in any order. So a lane takes four adjacent columns, and reads weights and activations 16 bytes
// at a time.
//
// A row's sums do not depend on other rows. Called by kernels_cuda_tiles.cu; the tests execute the
// instruction on the host.
#pragma once

#include "runtime/gpu/bodies/product_bodies.hpp"

namespace baton::gpu {

inline constexpr std::uint32_t tile_outputs = 32; // of a warp
inline constexpr std::uint32_t tile_rows = 8;     // of one instruction

// Two elements of an operand; the first is in the lower half.
BATON_BODY std::uint32_t pair_of(bf16 /*kind*/, float first, float second) {
#ifdef __CUDA_ARCH__
  std::uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  return both;
#else
  bf16 low{}, high{};
  narrow(first, low);
  narrow(second, high);
  return low.bits | static_cast<std::uint32_t>(high.bits) << 16;
#endif
}
BATON_BODY std::uint32_t pair_of(f16 /*kind*/, float first, float second) {
  f16 low{}, high{};
  narrow(first, low);
  narrow(second, high);
  return low.bits | static_cast<std::uint32_t>(high.bits) << 16;
}

// A lane's sums for each tile of rows. They belong to outputs 16 * block + place and 8 further, and
// to rows 2 * quarter and the next.
template <std::uint32_t Tiles>
using tile_sums = float[Tiles][tile_outputs / 16][4];

// The outputs of a lane, in steps of 8 from its place. Outputs beyond the last repeat it.
template <class Output>
struct lane_outputs {
  Output each[tile_outputs / 8];

  BATON_BODY static lane_outputs of(const few_rows_args& a, std::uint64_t first,
                                    std::uint32_t place) {
    lane_outputs out;
    BATON_UNROLL
    for (std::uint32_t i = 0; i < tile_outputs / 8; ++i) {
      const std::uint64_t own = first + i * 8 + place;
      out.each[i] = Output::of(a, own < a.outputs ? own : a.outputs - 1);
    }
    return out;
  }
  BATON_BODY void fetch(std::uint64_t run, typename Output::fetched (&to)[tile_outputs / 8]) const {
    BATON_UNROLL
    for (std::uint32_t i = 0; i < tile_outputs / 8; ++i)
      to[i] = each[i].fetch(run);
  }
};

// The columns that four lanes read at a time.
template <class Output>
inline constexpr std::uint64_t tile_columns = std::uint64_t{4} * Output::run;

// Adds the products of every `parts`-th group of columns, beginning with `part`, to `sum`.
// Requires: first_row < rows, columns is a multiple of tile_columns.
template <class T, class Output, std::uint32_t Tiles, class Team>
BATON_BODY void multiply_tiles(Team& team, const few_rows_args& a,
                               const lane_outputs<Output>& weights, std::uint32_t first_row,
                               std::uint32_t part, std::uint32_t parts, tile_sums<Tiles>& sum) {
  constexpr std::uint32_t run = Output::run, outputs = tile_outputs / 8;
  const std::uint32_t place = team.lane / 4, quarter = team.lane % 4;
  const std::uint64_t groups = a.columns / tile_columns<Output>;
  const T* rows[Tiles];
  BATON_UNROLL
  for (std::uint32_t n = 0; n < Tiles; ++n) {
    const std::uint32_t own = first_row + n * tile_rows + place;
    rows[n] =
        static_cast<const T*>(a.in) + std::uint64_t{own < a.rows ? own : a.rows - 1} * a.columns;
  }
  typename Output::fetched found[outputs] = {};
  if (part < groups)
    weights.fetch(std::uint64_t{part} * 4 + quarter, found);
  for (std::uint64_t g = part; g < groups; g += parts) {
    std::uint32_t left[outputs / 2][run / 4][4];
    BATON_UNROLL
    for (std::uint32_t i = 0; i < outputs; ++i) {
      float w[run];
      Output::make_numbers(found[i], w);
      BATON_UNROLL
      for (std::uint32_t k = 0; k < run / 4; ++k) {
        left[i / 2][k][i % 2] = pair_of(T{}, w[4 * k], w[4 * k + 1]);
        left[i / 2][k][2 + i % 2] = pair_of(T{}, w[4 * k + 2], w[4 * k + 3]);
      }
    }
    if (g + parts < groups) // arrives while this group is multiplied
      weights.fetch((g + parts) * 4 + quarter, found);
    BATON_UNROLL
    for (std::uint32_t n = 0; n < Tiles; ++n) {
      BATON_UNROLL
      for (std::uint32_t piece = 0; piece < run / 8; ++piece) {
        const sixteen_bytes x = load_sixteen(rows[n] + (g * 4 + quarter) * run + piece * 8);
        BATON_UNROLL
        for (std::uint32_t k = 0; k < 2; ++k) {
          BATON_UNROLL
          for (std::uint32_t m = 0; m < outputs / 2; ++m)
            team.multiply_add(T{}, left[m][piece * 2 + k], x.word[2 * k], x.word[2 * k + 1],
                              sum[n][m]);
        }
      }
    }
  }
}

// Writes a lane's sums of all columns.
template <class T, class Output, std::uint32_t Tiles, class Team>
BATON_BODY void put_tiles(const Team& team, const few_rows_args& a,
                          const lane_outputs<Output>& weights, std::uint32_t first_row,
                          std::uint64_t first_output, const tile_sums<Tiles>& sum) {
  const std::uint32_t place = team.lane / 4, quarter = team.lane % 4;
  BATON_UNROLL
  for (std::uint32_t n = 0; n < Tiles; ++n) {
    BATON_UNROLL
    for (std::uint32_t i = 0; i < tile_outputs / 8; ++i) {
      BATON_UNROLL
      for (std::uint32_t c = 0; c < 2; ++c) {
        const std::uint32_t row = first_row + n * tile_rows + 2 * quarter + c;
        const std::uint64_t output = first_output + i * 8 + place;
        if (row >= a.rows || output >= a.outputs)
          continue;
        const float x = weights.each[i].scaled(sum[n][i / 2][i % 2 * 2 + c]);
        const std::uint64_t at = std::uint64_t{row} * a.outputs + output;
        if (a.is_out_f32)
          static_cast<float*>(a.out)[at] = x;
        else
          narrow(x, static_cast<T*>(a.out)[at]);
      }
    }
  }
}

} // namespace baton::gpu
