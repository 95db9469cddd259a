// Paged attention, written once over a vector type V. Keys and values come in absolutely aligned
// chunks of 64 positions; per chunk: scores (one fma per dimension, in order), maximum, exp, a sum
// by a fixed tree, P.V from zero; chunk results are merged in chunk order (the online softmax of
// arXiv 1805.02867). Prefill and decode run this same sequence per query, so both give the same
// bits. A window hides the positions before it; chunks that it hides from all queries are skipped.
#pragma once

#include "runtime/cpu/row_body.hpp"

namespace baton::cpu {

// out[r][column .. +16*C) = sum over k < n of a[r][k] * matrix[k][column ..]; matrix is f16.
template <class V, int R, int C>
[[gnu::always_inline]] inline void
multiply_columns(const float* const* a, const std::uint16_t* matrix, std::size_t width,
                 std::size_t column, std::size_t n, float* const* out) {
  typename V::f32 sum[R][C];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c)
      sum[r][c] = V::zero();
  const std::uint16_t* row = matrix + column;
  for (std::size_t k = 0; k < n; ++k, row += width) {
    typename V::f32 b[C];
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c)
      b[c] = V::load_f16(row + c * 16);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const auto x = V::set(a[r][k]);
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c)
        sum[r][c] = V::fma(x, b[c], sum[r][c]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c)
      V::store(out[r] + column + c * 16, sum[r][c]);
}

template <class V, int R>
[[gnu::always_inline]] inline void multiply(const float* const* a, const std::uint16_t* matrix,
                                            std::size_t width, std::size_t n, float* const* out) {
  constexpr std::size_t step = static_cast<std::size_t>(V::attention_vectors) * 16;
  std::size_t column = 0;
  for (; column + step <= width; column += step)
    multiply_columns<V, R, V::attention_vectors>(a, matrix, width, column, n, out);
  for (; column < width; column += 16)
    multiply_columns<V, R, 1>(a, matrix, width, column, n, out);
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

template <class V, int R>
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
    const std::uint16_t* keys = args.pages[chunk];
    multiply<V, R>(args.queries, keys, chunk_positions, width, score_rows);
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
    multiply<V, R>(score_rows, keys + width * chunk_positions, width,
                   visible < chunk_positions ? visible : chunk_positions, value_rows);
    for (int r = 0; r < R; ++r)
      for (std::size_t i = 0; i < width; i += 16) {
        const auto earlier = V::mul(V::load(args.out[r] + i), V::set(before[r]));
        V::store(args.out[r] + i, V::fma(V::load(values[r] + i), V::set(now[r]), earlier));
      }
  }
  for (int r = 0; r < R; ++r)
    scale<V>(args.out[r], width, 1.0F / state[r].sum);
}

template <class V>
void attend(const attend_args& args) {
  static_assert(attend_queries_max == 6);
  switch (args.count) {
  case 1:
    return attend_tile<V, 1>(args);
  case 2:
    return attend_tile<V, 2>(args);
  case 3:
    return attend_tile<V, 3>(args);
  case 4:
    return attend_tile<V, 4>(args);
  case 5:
    return attend_tile<V, 5>(args);
  case 6:
    return attend_tile<V, 6>(args);
  default:
    return;
  }
}

} // namespace baton::cpu
