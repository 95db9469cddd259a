// The product of bf16 panels, over a vector type V. Its operations are those of AMX (Intel SDM,
// TDPBF16PS), so tiles and plain fma give the same bits. Activations are rounded to bf16. Each
// block of 32 k has two sums from zero in the order of k:
//   `even = fma(w[k], x[k], even)` for even k, `odd = fma(w[k], x[k], odd)` for odd k.
// Then acc = acc + (even + odd). Denormals count as zero everywhere.
#pragma once

#include "runtime/cpu/kernels/kernels.hpp"
#include "runtime/cpu/kernels/matmul_body.hpp"

namespace baton::cpu {

// Rounds to bf16; the results are float32 rows of bf16_row_bytes(blocks).
template <class V>
void round_rows(const matmul_args& args, std::size_t first, std::size_t rows) {
  for (std::size_t m = 0; m < rows; ++m) {
    const auto* from =
        reinterpret_cast<const float*>(args.activations + (first + m) * args.activation_stride);
    auto* to = reinterpret_cast<float*>(args.scratch + m * bf16_row_bytes(args.blocks));
    for (std::size_t k = 0; k < args.blocks * block_columns; k += 16)
      V::store(to + k, V::round_to_bf16(V::load(from + k)));
  }
}

// `a`: from round_rows; `first`: the first of the panel's two vectors to compute.
template <class V, int MR, int W>
[[gnu::always_inline]] inline void bf16_tile(typename V::f32 (&sum)[MR][W], const std::byte* w,
                                             int first, std::size_t blocks, const std::byte* a,
                                             prefetch_share ahead) {
  using f32 = typename V::f32;
  const std::size_t stride = bf16_row_bytes(blocks);
  w += first * 64;
  for (std::size_t b = 0; b < blocks; ++b) {
    for (int i = 0; i < ahead.lines_per_block; ++i, ahead.next += 64)
      V::prefetch(ahead.next);
    f32 even[MR][W], odd[MR][W];
#pragma GCC unroll 12
    for (int m = 0; m < MR; ++m)
#pragma GCC unroll 2
      for (int i = 0; i < W; ++i)
        even[m][i] = odd[m][i] = V::zero();
    for (std::size_t k = 0; k < block_columns; k += 2, w += 128, a += 2 * sizeof(float)) {
      f32 first_of[W], second_of[W];
#pragma GCC unroll 2
      for (int i = 0; i < W; ++i) {
        first_of[i] = V::template load_bf16<0>(w + i * 64);
        second_of[i] = V::template load_bf16<1>(w + i * 64);
      }
#pragma GCC unroll 12
      for (int m = 0; m < MR; ++m) {
        const auto* x = reinterpret_cast<const float*>(a + static_cast<std::size_t>(m) * stride);
#pragma GCC unroll 2
        for (int i = 0; i < W; ++i) {
          even[m][i] = V::fma_flushed(first_of[i], V::set(x[0]), even[m][i]);
          odd[m][i] = V::fma_flushed(second_of[i], V::set(x[1]), odd[m][i]);
        }
      }
    }
#pragma GCC unroll 12
    for (int m = 0; m < MR; ++m)
#pragma GCC unroll 2
      for (int i = 0; i < W; ++i)
        sum[m][i] = V::add_flushed(sum[m][i], V::add_flushed(even[m][i], odd[m][i]));
  }
}

template <class V, int MR>
[[gnu::noinline]] void bf16_rows(const std::byte* w, std::size_t blocks, const std::byte* a,
                                 float* out, std::size_t out_stride, bool adds,
                                 prefetch_share ahead) {
  constexpr int W = V::panel_vectors;
  for (int first = 0; first < 2; first += W) {
    typename V::f32 sum[MR][W];
#pragma GCC unroll 12
    for (int m = 0; m < MR; ++m)
#pragma GCC unroll 2
      for (int i = 0; i < W; ++i)
        sum[m][i] = V::zero();
    bf16_tile<V, MR, W>(sum, w, first, blocks, a, ahead);
    ahead.lines_per_block = 0;
#pragma GCC unroll 12
    for (int m = 0; m < MR; ++m)
#pragma GCC unroll 2
      for (int i = 0; i < W; ++i) {
        float* to = out + static_cast<std::size_t>(m) * out_stride + (first + i) * 16;
        V::store(to, adds ? V::add_flushed(V::load(to), sum[m][i]) : sum[m][i]);
      }
  }
}

// Multiplies with fma on the halves of 32 bits.
template <class V>
struct bf16_by_fma {
  static constexpr int rows = V::bf16_rows;
  using flushing = typename V::flushing;
  static std::size_t row_bytes(std::size_t blocks) { return bf16_row_bytes(blocks); }
  static void round(const matmul_args& args, std::size_t first, std::size_t count) {
    round_rows<V>(args, first, count);
  }
  template <int MR>
  static void multiply(const std::byte* w, std::size_t blocks, const std::byte* a, float* out,
                       std::size_t out_stride, bool adds, prefetch_share ahead) {
    bf16_rows<V, MR>(w, blocks, a, out, out_stride, adds, ahead);
  }
};

// Multiplies `count` rows, 1 <= count <= MR.
template <class P, int MR, class... Args>
[[gnu::always_inline]] inline void multiply_bf16_rows(int count, Args... args) {
  if constexpr (MR > 1)
    if (count < MR)
      return multiply_bf16_rows<P, MR - 1>(count, args...);
  P::template multiply<MR>(args...);
}

// P defines how rows are rounded into the scratch memory and multiplied.
template <class P>
void multiply_bf16(const matmul_args& args) {
  constexpr std::size_t tile_rows = P::rows;
  const std::size_t record_bytes = layout_of(panel_format::bf16).record_bytes();
  [[maybe_unused]] const typename P::flushing scope;
  for (std::size_t first = 0; first < args.rows; first += arranged_rows) {
    const std::size_t left = args.rows - first;
    const std::size_t rows = left < arranged_rows ? left : arranged_rows;
    P::round(args, first, rows);
    const std::size_t tiles = (rows + tile_rows - 1) / tile_rows;
    // The tiles of the first pass divide the prefetch of the next panel.
    const std::size_t lines = first == 0 ? (record_bytes / 64 + tiles - 1) / tiles : std::size_t{0};
    const std::byte* panel = args.panels;
    for (std::size_t p = 0; p < args.panel_count; ++p, panel += args.blocks * record_bytes) {
      std::size_t m = 0;
      for (std::size_t t = 0; t < tiles; ++t) {
        const std::size_t count = rows / tiles + (t < rows % tiles ? 1 : 0);
        const prefetch_share ahead{panel + (record_bytes + t * lines * 64) * args.blocks,
                                   static_cast<int>(lines)};
        multiply_bf16_rows<P, P::rows>(
            static_cast<int>(count), panel, args.blocks,
            static_cast<const std::byte*>(args.scratch + m * P::row_bytes(args.blocks)),
            args.out + (first + m) * args.out_stride + p * panel_rows, args.out_stride, args.adds,
            ahead);
        m += count;
      }
    }
  }
}

template <class V>
void matmul_bf16(const matmul_args& args) {
  multiply_bf16<bf16_by_fma<V>>(args);
}

} // namespace baton::cpu
