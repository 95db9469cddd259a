// The matrix product, written once over a vector type V; each kernels_<isa>.cpp instantiates it
// with internal linkage. Every output has its own chain of operations over k:
//   Quantised: per block of 32: exact int32 dot, acc = fma(float(dot), weight_scale * scale, acc),
//              with a min also acc = fma(min, scaled_sum, acc). With two scales the same for each
//              half of the block, then the mins.
//   Float:     acc = fma(weight, activation, acc) for each k.
//   Bf16:      see matmul_bf16_body.hpp.
// The bits therefore do not depend on the tile, the neighbouring rows or the thread.
#pragma once

#include "runtime/cpu/kernels/kernels.hpp"

namespace baton::cpu {

// Rows whose results stay in the L1 cache during one panel.
inline constexpr std::size_t matmul_rows_per_pass = 60;

// Cache lines of the next panel, prefetched while this one is processed.
struct prefetch_share {
  const std::byte* next = nullptr;
  int lines_per_block = 0;
};

// W vectors of 16 outputs in MR rows.
template <class V, panel_format Format, activation_width Width, int MR, int W>
struct quantised_tile {
  static constexpr panel_layout layout = layout_of(Format);
  static constexpr bool is_wide = Width == activation_width::bits16;
  // 16-bit products cannot saturate, so their codes stay unsigned on every ISA.
  static constexpr bool has_offset =
      layout.multiplies_bytes() && (is_wide || V::multiplies_offset_bytes);
  using f32 = typename V::f32;
  using i32 = typename V::i32;
  using codes = typename V::codes;
  using block_type = activation_block<Width>;

  struct accumulators {
    i32 v[MR][W];
  };

  [[gnu::always_inline]] static inline const block_type& block(const std::byte* a,
                                                               std::size_t stride, int row) {
    return *reinterpret_cast<const block_type*>(a + static_cast<std::size_t>(row) * stride);
  }

  // Initial value of the integer accumulator: cancels the offset of the codes. Half -1: both
  // halves.
  template <int Half>
  [[gnu::always_inline]] static inline std::int32_t offset(const activation_terms& t) {
    if constexpr (layout.has_zero_point)
      return Half == 0   ? t.minus_128_sum_lo / 16
             : Half == 1 ? t.minus_128_sum_hi / 16
                         : t.minus_8_sum;
    else if constexpr (!has_offset)
      return 0;
    else if constexpr (Half == 0)
      return t.minus_128_sum_lo;
    else if constexpr (Half == 1)
      return t.minus_128_sum_hi;
    else
      return t.minus_128_sum;
  }

  // Adds the products of four 8-bit activations from index `at` on.
  [[gnu::always_inline]] static inline void
  dot_four(accumulators& acc, const codes (&c)[W], const std::byte* a, std::size_t stride, int at) {
#pragma GCC unroll 8
    for (int m = 0; m < MR; ++m) {
      const auto x = V::broadcast(block(a, stride, m).values + at);
#pragma GCC unroll 2
      for (int i = 0; i < W; ++i)
        acc.v[m][i] = layout.multiplies_bytes() ? V::dot_bytes(acc.v[m][i], c[i], x)
                                                : V::dot_nibbles(acc.v[m][i], c[i], x);
    }
  }

  // Adds the products of two 16-bit activations and the codes at bit `Shift` of every two bytes.
  template <int Shift>
  [[gnu::always_inline]] static inline void
  dot_two(accumulators& acc, const codes (&c)[W], const std::byte* a, std::size_t stride, int at) {
    codes two[W];
#pragma GCC unroll 2
    for (int i = 0; i < W; ++i)
      two[i] = V::template words < Shift, layout.multiplies_bytes() ? 8 : 4 > (c[i]);
#pragma GCC unroll 8
    for (int m = 0; m < MR; ++m) {
      const auto x = V::broadcast(block(a, stride, m).values + at);
#pragma GCC unroll 2
      for (int i = 0; i < W; ++i)
        acc.v[m][i] = V::dot_words(acc.v[m][i], two[i], x);
    }
  }

  // The dots of a block, starting from the offsets. Half 0 or 1: only k below 16, or from 16 on.
  template <int Half>
  [[gnu::always_inline]] static inline void dot_block(accumulators& acc, const std::byte* w,
                                                      const std::byte* a, std::size_t stride,
                                                      const codes& table) {
#pragma GCC unroll 8
    for (int m = 0; m < MR; ++m)
#pragma GCC unroll 2
      for (int i = 0; i < W; ++i)
        acc.v[m][i] = V::set_i32(offset<Half>(block(a, stride, m).terms));
    constexpr std::size_t group_bytes = layout.has_bytes ? 256 : 128;
    // The high nibbles are the codes of k >= 16. A table format has a byte for each code.
    constexpr int nibble = layout.multiplies_bytes() ? 0 : 4;
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j, w += group_bytes) {
      codes low[W], top[W];
#pragma GCC unroll 2
      for (int i = 0; i < W; ++i) {
        low[i] = V::load_codes(w + i * 64);
        top[i] = layout.has_bytes ? V::load_codes(w + 128 + i * 64) : low[i];
        if constexpr (!layout.has_bytes && (!is_wide || layout.has_table)) {
          top[i] = V::high_nibbles(low[i]);
          low[i] = V::low_nibbles(low[i]);
        }
        if constexpr (layout.has_table) {
          top[i] = V::from_table(table, top[i]);
          low[i] = V::from_table(table, low[i]);
        }
      }
      if constexpr (Half != 1 && is_wide) {
        dot_two<0>(acc, low, a, stride, 4 * j);
        dot_two<8>(acc, low, a, stride, 4 * j + 2);
      } else if constexpr (Half != 1) {
        dot_four(acc, low, a, stride, 4 * j);
      }
      if constexpr (Half != 0 && is_wide) {
        dot_two<nibble>(acc, top, a, stride, 16 + 4 * j);
        dot_two<nibble + 8>(acc, top, a, stride, 16 + 4 * j + 2);
      } else if constexpr (Half != 0) {
        dot_four(acc, top, a, stride, 16 + 4 * j);
      }
    }
  }

  [[gnu::always_inline]] static inline f32 load_scale(const std::byte* p, int i) {
    if constexpr (layout.has_f16_scales)
      return V::load_f16(p + i * 32);
    else
      return V::load(reinterpret_cast<const float*>(p + i * 64));
  }

  // sum = fma(float(acc), weight scale * activation scale, sum)
  [[gnu::always_inline]] static inline void apply(f32 (&sum)[MR][W], const accumulators& acc,
                                                  const std::byte* scales, const std::byte* a,
                                                  std::size_t stride) {
#pragma GCC unroll 2
    for (int i = 0; i < W; ++i) {
      const f32 d = load_scale(scales, i);
#pragma GCC unroll 8
      for (int m = 0; m < MR; ++m)
        sum[m][i] = V::fma(V::to_f32(acc.v[m][i]),
                           V::mul(d, V::set(block(a, stride, m).terms.scale)), sum[m][i]);
    }
  }

  // sum = fma(min, scaled sum of activations, sum)
  template <float activation_terms::*ScaledSum>
  [[gnu::always_inline]] static inline void apply_min(f32 (&sum)[MR][W], const std::byte* mins,
                                                      const std::byte* a, std::size_t stride) {
#pragma GCC unroll 2
    for (int i = 0; i < W; ++i) {
      const f32 min = load_scale(mins, i);
#pragma GCC unroll 8
      for (int m = 0; m < MR; ++m)
        sum[m][i] = V::fma(min, V::set(block(a, stride, m).terms.*ScaledSum), sum[m][i]);
    }
  }

  [[gnu::always_inline]] static inline void record(f32 (&sum)[MR][W], const std::byte* w, int half,
                                                   const std::byte* a, std::size_t stride,
                                                   const codes& table) {
    const std::byte* codes_at = w + half * 64;
    const std::byte* scales =
        w + layout.code_bytes() + static_cast<std::size_t>(half) * layout.scale_bytes() / 2;
    accumulators acc;
    if constexpr (layout.has_two_scales) {
      dot_block<0>(acc, codes_at, a, stride, table);
      apply(sum, acc, scales, a, stride);
      dot_block<1>(acc, codes_at, a, stride, table);
      apply(sum, acc, scales + layout.scale_bytes(), a, stride);
    } else {
      dot_block<-1>(acc, codes_at, a, stride, table);
      apply(sum, acc, scales, a, stride);
    }
    if constexpr (layout.has_min && layout.has_two_scales) {
      apply_min<&activation_terms::scaled_sum_lo>(sum, scales + 2 * layout.scale_bytes(), a,
                                                  stride);
      apply_min<&activation_terms::scaled_sum_hi>(sum, scales + 3 * layout.scale_bytes(), a,
                                                  stride);
    } else if constexpr (layout.has_min) {
      apply_min<&activation_terms::scaled_sum>(sum, scales + layout.scale_bytes(), a, stride);
    }
  }

  [[gnu::always_inline]] static inline void run(f32 (&sum)[MR][W], const std::byte* w, int half,
                                                std::size_t blocks, const std::byte* a,
                                                std::size_t stride, prefetch_share ahead,
                                                [[maybe_unused]] const code_table* numbers) {
    codes table{};
    if constexpr (layout.has_table)
      table = V::load_table(numbers->codes);
    for (std::size_t b = 0; b < blocks; ++b, w += layout.record_bytes(), a += sizeof(block_type)) {
      for (int i = 0; i < ahead.lines_per_block; ++i, ahead.next += 64)
        V::prefetch(ahead.next);
      record(sum, w, half, a, stride, table);
    }
  }
};

template <class V, panel_format Format, int MR, int W>
struct float_tile {
  static constexpr panel_layout layout = layout_of(Format);
  using f32 = typename V::f32;

  [[gnu::always_inline]] static inline f32 load_weights(const std::byte* p) {
    if constexpr (Format == panel_format::f16)
      return V::load_f16(p);
    else
      return V::load(reinterpret_cast<const float*>(p));
  }

  [[gnu::always_inline]] static inline void run(f32 (&sum)[MR][W], const std::byte* w, int half,
                                                std::size_t blocks, const std::byte* a,
                                                std::size_t stride, prefetch_share ahead) {
    constexpr std::size_t vector_bytes = 16 * layout.element_bytes;
    w += static_cast<std::size_t>(half) * vector_bytes;
    for (std::size_t b = 0; b < blocks; ++b) {
      for (int i = 0; i < ahead.lines_per_block; ++i, ahead.next += 64)
        V::prefetch(ahead.next);
      for (std::size_t k = 0; k < block_columns; ++k, w += 2 * vector_bytes, a += sizeof(float)) {
        f32 weights[W];
#pragma GCC unroll 2
        for (int i = 0; i < W; ++i)
          weights[i] = load_weights(w + static_cast<std::size_t>(i) * vector_bytes);
#pragma GCC unroll 12
        for (int m = 0; m < MR; ++m) {
          const f32 x =
              V::set(*reinterpret_cast<const float*>(a + static_cast<std::size_t>(m) * stride));
#pragma GCC unroll 2
          for (int i = 0; i < W; ++i)
            sum[m][i] = V::fma(weights[i], x, sum[m][i]);
        }
      }
    }
  }
};

template <class V, panel_format Format, activation_width Width, int MR>
[[gnu::noinline]] void matmul_tile(const std::byte* w, std::size_t blocks, const std::byte* a,
                                   std::size_t stride, float* out, std::size_t out_stride,
                                   bool adds, prefetch_share ahead, const code_table* numbers) {
  constexpr int W = V::panel_vectors;
  using f32 = typename V::f32;
  for (int half = 0; half < 2; half += W) {
    f32 sum[MR][W];
#pragma GCC unroll 12
    for (int m = 0; m < MR; ++m)
#pragma GCC unroll 2
      for (int i = 0; i < W; ++i)
        sum[m][i] = V::zero();
    if constexpr (layout_of(Format).is_float)
      float_tile<V, Format, MR, W>::run(sum, w, half, blocks, a, stride, ahead);
    else
      quantised_tile<V, Format, Width, MR, W>::run(sum, w, half, blocks, a, stride, ahead, numbers);
    ahead.lines_per_block = 0;
#pragma GCC unroll 12
    for (int m = 0; m < MR; ++m)
#pragma GCC unroll 2
      for (int i = 0; i < W; ++i) {
        float* to = out + static_cast<std::size_t>(m) * out_stride + (half + i) * 16;
        V::store(to, adds ? V::add(V::load(to), sum[m][i]) : sum[m][i]);
      }
  }
}

// Calls the tile for `count` rows, 1 <= count <= MR.
template <class V, panel_format Format, activation_width Width, int MR, class... Args>
[[gnu::always_inline]] inline void matmul_tile_of(int count, Args... args) {
  if constexpr (MR > 1)
    if (count < MR)
      return matmul_tile_of<V, Format, Width, MR - 1>(count, args...);
  matmul_tile<V, Format, Width, MR>(args...);
}

template <class V, panel_format Format, activation_width Width>
void matmul(const matmul_args& args) {
  constexpr panel_layout layout = layout_of(Format);
  constexpr std::size_t tile_rows =
      static_cast<std::size_t>(layout.is_float ? V::float_rows : V::quantised_rows);
  const std::size_t panel_bytes = args.blocks * layout.record_bytes();
  const std::byte* panel = args.panels;
  for (std::size_t p = 0; p < args.panel_count; ++p, panel += panel_bytes) {
    for (std::size_t first = 0; first < args.rows; first += matmul_rows_per_pass) {
      const std::size_t left = args.rows - first;
      const std::size_t rows = left < matmul_rows_per_pass ? left : matmul_rows_per_pass;
      const std::size_t tiles = (rows + tile_rows - 1) / tile_rows;
      // The tiles of the first pass divide the prefetch of the next panel.
      const std::size_t lines =
          first == 0 ? (layout.record_bytes() / 64 + tiles - 1) / tiles : std::size_t{0};
      std::size_t m = first;
      for (std::size_t t = 0; t < tiles; ++t) {
        const std::size_t count = rows / tiles + (t < rows % tiles ? 1 : 0);
        const prefetch_share ahead{panel + panel_bytes + t * lines * 64 * args.blocks,
                                   static_cast<int>(lines)};
        matmul_tile_of<V, Format, Width, static_cast<int>(tile_rows)>(
            static_cast<int>(count), panel, args.blocks,
            args.activations + m * args.activation_stride, args.activation_stride,
            args.out + m * args.out_stride + p * panel_rows, args.out_stride, args.adds, ahead,
            args.table);
        m += count;
      }
    }
  }
}

} // namespace baton::cpu
