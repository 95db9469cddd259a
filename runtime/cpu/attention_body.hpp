// Paged attention, written once over a vector type V. Keys and values come in absolutely aligned
// chunks of 64 positions; per chunk: scores (one fma per dimension, in order), maximum, exp, a sum
// by a fixed tree, P.V from zero; chunk results are merged in chunk order (the online softmax of
// arXiv 1805.02867). Prefill and decode run this same sequence per query, so both give the same
// bits. A window hides the positions before it; chunks that it hides from all queries are skipped.
#pragma once

#include "runtime/cpu/kv_body.hpp"
#include "runtime/cpu/row_body.hpp"

namespace baton::cpu {

// Whose factors meet which columns: all columns the same, or each block of 32 its own, [64] apart.
enum class factors { shared, by_block };

// out[r][column .. +16*C) = sum over k < n of a[r][k] * matrix[k][column ..], without scales.
template <class V, kv_format Format, factors Factors, int R, int C>
[[gnu::always_inline]] inline void
multiply_columns(const float* const* a, const typename kv_elements<V, Format>::type* matrix,
                 std::size_t width, std::size_t column, std::size_t n, float* const* out) {
  static_assert(C == 1 || C * 16 % kv_scale_dimensions == 0);
  constexpr std::size_t apart = Factors == factors::by_block ? kv_block_positions : 0;
  typename V::f32 sum[R][C];
  const float* factor[R];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    factor[r] = a[r] + column / kv_scale_dimensions * apart;
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c)
      sum[r][c] = V::zero();
  }
  const auto* row = matrix + column;
  for (std::size_t k = 0; k < n; ++k, row += width) {
    typename V::f32 b[C];
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c)
      b[c] = kv_elements<V, Format>::load(row + c * 16);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) {
        const auto x = V::set(factor[r][k + c * 16 / kv_scale_dimensions * apart]);
        sum[r][c] = V::fma(x, b[c], sum[r][c]);
      }
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c)
      V::store(out[r] + column + c * 16, sum[r][c]);
}

template <class V, kv_format Format, factors Factors, int R>
[[gnu::always_inline]] inline void multiply(const float* const* a,
                                            const typename kv_elements<V, Format>::type* matrix,
                                            std::size_t width, std::size_t n, float* const* out) {
  constexpr std::size_t step = static_cast<std::size_t>(V::attention_vectors) * 16;
  std::size_t column = 0;
  for (; column + step <= width; column += step)
    multiply_columns<V, Format, Factors, R, V::attention_vectors>(a, matrix, width, column, n, out);
  for (; column < width; column += 16)
    multiply_columns<V, Format, Factors, R, 1>(a, matrix, width, column, n, out);
}

// scores[r][0 .. 64) = queries[r] . keys. A scale is that of a position and 32 dimensions: it meets
// the sum over these.
template <class V, kv_format Format, int R>
[[gnu::always_inline]] inline void multiply_keys(const float* const* queries, const std::byte* page,
                                                 std::size_t head_size, float* const* scores) {
  constexpr kv_layout layout = layout_of(Format);
  const auto* keys = reinterpret_cast<const typename kv_elements<V, Format>::type*>(page);
  if constexpr (!layout.has_scales) {
    multiply<V, Format, factors::shared, R>(queries, keys, kv_block_positions, head_size, scores);
  } else {
    const auto* scales =
        reinterpret_cast<const std::uint16_t*>(page + layout.element_matrix_bytes(head_size));
    alignas(64) float partial[R][kv_block_positions];
    const float* query[R];
    float* partial_rows[R];
    for (int r = 0; r < R; ++r)
      partial_rows[r] = partial[r];
    for (std::size_t d = 0; d < head_size; d += kv_scale_dimensions, scales += kv_block_positions) {
      for (int r = 0; r < R; ++r)
        query[r] = queries[r] + d;
      const std::size_t left = head_size - d;
      multiply<V, Format, factors::shared, R>(
          query, keys + d * kv_block_positions, kv_block_positions,
          left < kv_scale_dimensions ? left : kv_scale_dimensions, partial_rows);
      for (std::size_t i = 0; i < kv_block_positions; i += 16) {
        const auto scale = V::load_f16(scales + i);
        for (int r = 0; r < R; ++r) {
          const auto earlier = d == 0 ? V::zero() : V::load(scores[r] + i);
          V::store(scores[r] + i, V::fma(V::load(partial[r] + i), scale, earlier));
        }
      }
    }
  }
}

// out[r] = sum over the first n positions of weights[r][position] * value. Scales go into the
// weights: as many products as positions, not as elements.
template <class V, kv_format Format, int R>
[[gnu::always_inline]] inline void multiply_values(const float* const* weights,
                                                   const std::byte* page, std::size_t head_size,
                                                   std::size_t n, float* const* out) {
  constexpr kv_layout layout = layout_of(Format);
  const std::byte* matrix = page + layout.matrix_bytes(head_size);
  const auto* values = reinterpret_cast<const typename kv_elements<V, Format>::type*>(matrix);
  if constexpr (!layout.has_scales) {
    multiply<V, Format, factors::shared, R>(weights, values, head_size, n, out);
  } else {
    const auto* scales =
        reinterpret_cast<const std::uint16_t*>(matrix + layout.element_matrix_bytes(head_size));
    alignas(64) float scaled[R][layout.scale_blocks(head_size_max) * kv_block_positions];
    const float* scaled_rows[R];
    for (int r = 0; r < R; ++r)
      scaled_rows[r] = scaled[r];
    for (std::size_t i = 0; i < layout.scale_blocks(head_size) * kv_block_positions; i += 16) {
      const auto scale = V::load_f16(scales + i);
      for (int r = 0; r < R; ++r)
        V::store(scaled[r] + i, V::mul(V::load(weights[r] + i % kv_block_positions), scale));
    }
    multiply<V, Format, factors::by_block, R>(scaled_rows, values, head_size, n, out);
  }
}

struct softmax_state {
  float maximum; // of all scores so far
  float sum;     // of exp(score - maximum)
};

// The positions of a chunk that a query sees.
struct visible_range {
  int begin, end;
};

// Turns 64 scores into exp(score - chunk maximum), zero outside of `visible`; folds the chunk into
// `state`. Gives the factors of the earlier result and of this chunk's.
template <class V>
[[gnu::always_inline]] inline void fold_chunk(float* scores, visible_range visible, float soft_cap,
                                              softmax_state& state, float& factor_before,
                                              float& factor_chunk) {
  using f32 = typename V::f32;
  const f32 lowest = V::set(-__builtin_inff());
  f32 v[4];
  if (visible.begin >= static_cast<int>(kv_block_positions)) {
    // Before this query's window, but not before another's: changes nothing, as if it were skipped.
    for (int i = 0; i < 4; ++i)
      V::store(scores + i * 16, V::zero());
    factor_before = 1.0F;
    factor_chunk = 0.0F;
    return;
  }
  for (int i = 0; i < 4; ++i) {
    v[i] = V::load(scores + i * 16);
    if (soft_cap > 0.0F)
      v[i] = soft_capped<V>(v[i], soft_cap);
    v[i] = V::first_lanes(v[i], visible.end - i * 16, lowest);
    if (visible.begin > 0)
      v[i] = V::first_lanes(lowest, visible.begin - i * 16, v[i]);
  }
  const float maximum = V::reduce_max(V::max(V::max(v[0], v[1]), V::max(v[2], v[3])));
  for (int i = 0; i < 4; ++i) {
    // exp_of clamps, so hidden positions are cleared exactly here.
    v[i] = exp_of<V>(V::sub(v[i], V::set(maximum)));
    v[i] = V::first_lanes(v[i], visible.end - i * 16, V::zero());
    if (visible.begin > 0)
      v[i] = V::first_lanes(V::zero(), visible.begin - i * 16, v[i]);
    V::store(scores + i * 16, v[i]);
  }
  const float sum = V::reduce_add(V::add(V::add(v[0], v[1]), V::add(v[2], v[3])));
  const float merged = maximum > state.maximum ? maximum : state.maximum;
  const bool is_first = state.maximum == -__builtin_inff();
  factor_before = is_first ? 0.0F : V::first(exp_of<V>(V::set(state.maximum - merged)));
  factor_chunk = V::first(exp_of<V>(V::set(maximum - merged)));
  state.sum = __builtin_fmaf(sum, factor_chunk, state.sum * factor_before);
  state.maximum = merged;
}

template <class V, kv_format Format, int R>
[[gnu::noinline]] void attend_tile(const attend_args& args) {
  constexpr std::uint32_t chunk_positions = kv_block_positions;
  alignas(64) float scores[R][chunk_positions];
  alignas(64) float values[R][head_size_max];
  float* score_rows[R];
  float* value_rows[R];
  softmax_state state[R];
  const std::size_t width = args.head_size;
  for (int r = 0; r < R; ++r) {
    score_rows[r] = scores[r];
    value_rows[r] = values[r];
    state[r] = {-__builtin_inff(), 0.0F};
    for (std::size_t i = 0; i < width; i += 16)
      V::store(args.out[r] + i, V::zero());
  }
  const std::uint32_t last = args.positions[R - 1];
  std::uint32_t chunk = first_visible(args.positions[0], args.window) / chunk_positions;
  for (; chunk <= last / chunk_positions; ++chunk) {
    multiply_keys<V, Format, R>(args.queries, args.pages[chunk], width, score_rows);
    float before[R], now[R];
    for (int r = 0; r < R; ++r) {
      const std::uint32_t first = first_visible(args.positions[r], args.window);
      const std::uint32_t start = chunk * chunk_positions;
      const visible_range visible{first > start ? static_cast<int>(first - start) : 0,
                                  static_cast<int>(args.positions[r] + 1 - start)};
      fold_chunk<V>(scores[r], visible, args.soft_cap, state[r], before[r], now[r]);
    }
    // A position that a query does not see has weight 0 exactly, and fma(0, v, acc) is acc.
    const std::uint32_t visible = last - chunk * chunk_positions + 1;
    multiply_values<V, Format, R>(score_rows, args.pages[chunk], width,
                                  visible < chunk_positions ? visible : chunk_positions,
                                  value_rows);
    for (int r = 0; r < R; ++r)
      for (std::size_t i = 0; i < width; i += 16) {
        const auto earlier = V::mul(V::load(args.out[r] + i), V::set(before[r]));
        V::store(args.out[r] + i, V::fma(V::load(values[r] + i), V::set(now[r]), earlier));
      }
  }
  for (int r = 0; r < R; ++r)
    scale<V>(args.out[r], width, 1.0F / state[r].sum);
}

template <class V, kv_format Format>
void attend(const attend_args& args) {
  static_assert(attend_queries_max == 6);
  switch (args.count) {
  case 1:
    return attend_tile<V, Format, 1>(args);
  case 2:
    return attend_tile<V, Format, 2>(args);
  case 3:
    return attend_tile<V, Format, 3>(args);
  case 4:
    return attend_tile<V, Format, 4>(args);
  case 5:
    return attend_tile<V, Format, 5>(args);
  case 6:
    return attend_tile<V, Format, 6>(args);
  default:
    return;
  }
}

} // namespace baton::cpu
