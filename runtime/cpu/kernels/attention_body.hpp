// Paged attention, written once over a vector type V. Keys and values are processed in aligned
// chunks of 64 positions. Per chunk: scores (one fma per dimension, in order), maximum, exp, a sum
// by a fixed tree, P.V from zero. Chunk results are merged in chunk order (the online softmax of
// arXiv 1805.02867). Prefill and decode run the same sequence per query, so both give the same
// bits. A window hides earlier positions; chunks that it hides from all queries are skipped.
#pragma once

#include "runtime/cpu/kernels/kv_body.hpp"
#include "runtime/cpu/kernels/row_body.hpp"

namespace baton::cpu {

// How factors apply to columns: shared by all, or separate for each block of 32, [64] apart.
enum class factors { shared, by_block };

// A matrix of a page [rows][width], and the same matrix of the page that is read next. The next
// rows are prefetched during the computation, because a chunk is too short for the hardware
// prefetcher.
template <class Element>
struct paged_matrix {
  const Element* rows = nullptr;
  const Element* next_rows = nullptr;
  std::size_t width = 0;
};

inline constexpr std::size_t line_bytes = 64;

template <class Element>
[[gnu::always_inline]] inline void fetch_row(const Element* row, std::size_t width) {
  for (std::size_t byte = 0; byte < width * sizeof(Element); byte += line_bytes)
    __builtin_prefetch(reinterpret_cast<const std::byte*>(row) + byte, /*rw=*/0, /*locality=*/2);
}

// out[r][column .. +16*C) = sum over k < n of a[r][k] * matrix[k][column ..], without scales. The
// pass over the first columns prefetches.
template <class V, kv_format Format, factors Factors, int R, int C>
[[gnu::always_inline]] inline void
multiply_columns(const float* const* a,
                 const paged_matrix<typename kv_elements<V, Format>::type>& matrix,
                 std::size_t column, std::size_t n, float* const* out) {
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
  const std::size_t width = matrix.width;
  const auto* row = matrix.rows + column;
  const auto* next = matrix.next_rows;
  const std::size_t fetched = column == 0 ? width : 0;
  for (std::size_t k = 0; k < n; ++k, row += width, next += width) {
    fetch_row(next, fetched);
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

// The first `columns` products of all rows; a multiple of 16.
template <class V, kv_format Format, factors Factors, int R>
[[gnu::always_inline]] inline void
multiply(const float* const* a, const paged_matrix<typename kv_elements<V, Format>::type>& matrix,
         std::size_t columns, std::size_t n, float* const* out) {
  constexpr int most = V::attention_vectors;
  std::size_t column = 0;
  for (; column + most * 16 <= columns; column += most * 16)
    multiply_columns<V, Format, Factors, R, most>(a, matrix, column, n, out);
  if constexpr (most > 2)
    for (; column + 32 <= columns; column += 32)
      multiply_columns<V, Format, Factors, R, 2>(a, matrix, column, n, out);
  for (; column < columns; column += 16)
    multiply_columns<V, Format, Factors, R, 1>(a, matrix, column, n, out);
}

// A page, and the page that is read next.
struct page_pair {
  const std::byte* now = nullptr;
  const std::byte* next = nullptr;

  [[gnu::always_inline]] page_pair operator+(std::size_t bytes) const {
    return {now + bytes, next + bytes};
  }
  template <class Element>
  [[gnu::always_inline]] paged_matrix<Element> matrix(std::size_t width) const {
    return {reinterpret_cast<const Element*>(now), reinterpret_cast<const Element*>(next), width};
  }
};

// scores[r][0 .. columns) = queries[r] . keys. A scale covers one position and 32 dimensions and is
// applied to their sum.
template <class V, kv_format Format, int R>
[[gnu::always_inline]] inline void multiply_keys(const float* const* queries, page_pair pages,
                                                 std::size_t head_size, std::size_t columns,
                                                 float* const* scores) {
  using element = typename kv_elements<V, Format>::type;
  constexpr kv_layout layout = layout_of(Format);
  if constexpr (!layout.has_scales) {
    multiply<V, Format, factors::shared, R>(queries, pages.matrix<element>(kv_block_positions),
                                            columns, head_size, scores);
  } else {
    const auto* scales =
        reinterpret_cast<const std::uint16_t*>(pages.now + layout.element_matrix_bytes(head_size));
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
          query,
          (pages + d * kv_block_positions * sizeof(element)).matrix<element>(kv_block_positions),
          columns, left < kv_scale_dimensions ? left : kv_scale_dimensions, partial_rows);
      for (std::size_t i = 0; i < columns; i += 16) {
        const auto scale = V::load_f16(scales + i);
        for (int r = 0; r < R; ++r) {
          const auto earlier = d == 0 ? V::zero() : V::load(scores[r] + i);
          V::store(scores[r] + i, V::fma(V::load(partial[r] + i), scale, earlier));
        }
      }
    }
  }
}

// out[r] = sum over the first n positions of weights[r][position] * value. Scales are folded into
// the weights: one product per position, not per element.
template <class V, kv_format Format, int R>
[[gnu::always_inline]] inline void multiply_values(const float* const* weights, page_pair pages,
                                                   std::size_t head_size, std::size_t n,
                                                   float* const* out) {
  using element = typename kv_elements<V, Format>::type;
  constexpr kv_layout layout = layout_of(Format);
  const auto values = pages + layout.matrix_bytes(head_size);
  if constexpr (!layout.has_scales) {
    multiply<V, Format, factors::shared, R>(weights, values.matrix<element>(head_size), head_size,
                                            n, out);
  } else {
    const auto* scales =
        reinterpret_cast<const std::uint16_t*>(values.now + layout.element_matrix_bytes(head_size));
    alignas(64) float scaled[R][layout.scale_blocks(head_size_max) * kv_block_positions];
    const float* scaled_rows[R];
    for (int r = 0; r < R; ++r)
      scaled_rows[r] = scaled[r];
    for (std::size_t i = 0; i < layout.scale_blocks(head_size) * kv_block_positions; i += 16) {
      const auto scale = V::load_f16(scales + i);
      for (int r = 0; r < R; ++r)
        V::store(scaled[r] + i, V::mul(V::load(weights[r] + i % kv_block_positions), scale));
    }
    multiply<V, Format, factors::by_block, R>(scaled_rows, values.matrix<element>(head_size),
                                              head_size, n, out);
  }
}

// The positions of a chunk that are visible to a query.
struct visible_range {
  int begin, end;

  // The whole chunk lies before this query's window, but not before another query's.
  [[gnu::always_inline]] bool is_before_window() const {
    return begin >= static_cast<int>(kv_block_positions);
  }
  [[gnu::always_inline]] bool is_whole() const {
    return begin == 0 && end >= static_cast<int>(kv_block_positions);
  }
  // Values of positions [at, at + 16), with hidden ones replaced by `other`.
  template <class V>
  [[gnu::always_inline]] typename V::f32 only(typename V::f32 v, int at,
                                              typename V::f32 other) const {
    v = V::first_lanes(v, end - at, other);
    return begin > 0 ? V::first_lanes(other, begin - at, v) : v;
  }
};

// For up to 16 queries, one lane each: the maximum of all scores so far, and the sum of exp(score -
// maximum).
struct softmax_state {
  alignas(64) float maximum[16];
  alignas(64) float sum[16];
};
static_assert(attend_queries_max <= 16);

// Factors of earlier results and of a chunk's results in their sum.
struct merge_factors {
  alignas(64) float before[16];
  alignas(64) float chunk[16];
};

// Caps scores; reads only those up to `visible.end`. Returns the maximum of the visible ones.
template <class V>
[[gnu::always_inline]] inline float cap_scores(float* scores, visible_range visible,
                                               float soft_cap) {
  const auto lowest = V::set(-__builtin_inff());
  typename V::f32 v[4] = {lowest, lowest, lowest, lowest};
  for (int i = 0; i < 4 && i * 16 < visible.end; ++i) {
    v[i] = V::load(scores + i * 16);
    if (soft_cap > 0.0F) {
      v[i] = soft_capped<V>(v[i], soft_cap);
      V::store(scores + i * 16, v[i]);
    }
    if (!visible.is_whole())
      v[i] = visible.only<V>(v[i], i * 16, lowest);
  }
  return V::reduce_max(V::max(V::max(v[0], v[1]), V::max(v[2], v[3])));
}

// Replaces scores by exp(score - maximum), or zero where hidden. Returns the sum.
template <class V>
[[gnu::always_inline]] inline float weigh_scores(float* scores, visible_range visible,
                                                 float maximum) {
  typename V::f32 v[4];
  for (int i = 0; i < 4; ++i) {
    v[i] = V::zero();
    if (i * 16 < visible.end) {
      // exp_of clamps, so hidden positions are cleared exactly here.
      v[i] = exp_of<V>(V::sub(V::load(scores + i * 16), V::set(maximum)));
      if (!visible.is_whole())
        v[i] = visible.only<V>(v[i], i * 16, V::zero());
    }
    V::store(scores + i * 16, v[i]);
  }
  return V::reduce_add(V::add(V::add(v[0], v[1]), V::add(v[2], v[3])));
}

// Replaces the 64 scores of each of R queries by exp(score - chunk maximum), zero outside
// `visible`; reads only those up to `visible.end`. Folds the chunk into `state`. Each part
// processes all queries before the next part starts, because one query is a chain of dependent
// operations.
template <class V, int R>
[[gnu::always_inline]] inline void fold_chunk(float (&scores)[R][kv_block_positions],
                                              const visible_range (&visible)[R], float soft_cap,
                                              softmax_state& state, merge_factors& factors) {
  alignas(64) float maximum[16] = {}, sum[16] = {};
  for (int r = 0; r < R; ++r)
    maximum[r] = visible[r].is_before_window() ? -__builtin_inff()
                                               : cap_scores<V>(scores[r], visible[r], soft_cap);
  const auto before = V::load(state.maximum), chunk = V::load(maximum);
  const auto merged = V::max(chunk, before);
  V::store(factors.before, exp_of<V>(V::sub(before, merged)));
  V::store(factors.chunk, exp_of<V>(V::sub(chunk, merged)));
  for (int r = 0; r < R; ++r) {
    if (visible[r].is_before_window()) {
      // No effect, as if the chunk were skipped.
      for (int i = 0; i < 4; ++i)
        V::store(scores[r] + i * 16, V::zero());
      factors.before[r] = 1.0F;
      factors.chunk[r] = 0.0F;
      continue;
    }
    if (state.maximum[r] == -__builtin_inff())
      factors.before[r] = 0.0F;
    sum[r] = weigh_scores<V>(scores[r], visible[r], maximum[r]);
  }
  const auto earlier = V::mul(V::load(state.sum), V::load(factors.before));
  V::store(state.sum, V::fma(V::load(sum), V::load(factors.chunk), earlier));
  V::store(state.maximum, merged);
}

// Divides by the sum with the sinks' exp. Its maximum may be above that of all positions.
template <class V, int R>
[[gnu::always_inline]] inline void scale_with_sinks(const attend_args& args,
                                                    const softmax_state& state) {
  alignas(64) float sinks[16] = {}, factor[16];
  for (int r = 0; r < R; ++r)
    sinks[r] = args.sinks[r];
  const auto sink = V::load(sinks), before = V::load(state.maximum);
  const auto maximum = V::max(sink, before);
  const auto kept = exp_of<V>(V::sub(before, maximum));
  const auto sum = V::fma(V::load(state.sum), kept, exp_of<V>(V::sub(sink, maximum)));
  V::store(factor, V::div(kept, sum));
  for (int r = 0; r < R; ++r)
    scale<V>(args.out[r], args.head_size, factor[r]);
}

template <class V, kv_format Format, int R>
[[gnu::noinline]] void attend_tile(const attend_args& args) {
  constexpr std::uint32_t chunk_positions = kv_block_positions;
  alignas(64) float scores[R][chunk_positions];
  alignas(64) float values[R][head_size_max];
  float* score_rows[R];
  float* value_rows[R];
  softmax_state state;
  merge_factors factors;
  for (int lane = 0; lane < 16; ++lane) {
    state.maximum[lane] = -__builtin_inff();
    state.sum[lane] = 0.0F;
  }
  const std::size_t width = args.head_size;
  for (int r = 0; r < R; ++r) {
    score_rows[r] = scores[r];
    value_rows[r] = values[r];
    for (std::size_t i = 0; i < width; i += 16)
      V::store(args.out[r] + i, V::zero());
  }
  const std::uint32_t last = args.positions[R - 1];
  std::uint32_t chunk = first_visible(args.positions[0], args.window) / chunk_positions;
  for (; chunk <= last / chunk_positions; ++chunk) {
    const auto* next = chunk < last / chunk_positions ? args.pages[chunk + 1] : args.next_page;
    const page_pair pages{args.pages[chunk], next != nullptr ? next : args.pages[chunk]};
    // A hidden position has weight exactly 0, and fma(0, v, acc) is acc.
    const std::uint32_t left = last - chunk * chunk_positions + 1;
    const std::uint32_t visible = left < chunk_positions ? left : chunk_positions;
    multiply_keys<V, Format, R>(args.queries, pages, width, (visible + 15) / 16 * 16, score_rows);
    visible_range seen[R];
    for (int r = 0; r < R; ++r) {
      const std::uint32_t first = first_visible(args.positions[r], args.window);
      const std::uint32_t start = chunk * chunk_positions;
      seen[r] = {first > start ? static_cast<int>(first - start) : 0,
                 static_cast<int>(args.positions[r] + 1 - start)};
    }
    fold_chunk<V, R>(scores, seen, args.soft_cap, state, factors);
    multiply_values<V, Format, R>(score_rows, pages, width, visible, value_rows);
    for (int r = 0; r < R; ++r)
      for (std::size_t i = 0; i < width; i += 16) {
        const auto earlier = V::mul(V::load(args.out[r] + i), V::set(factors.before[r]));
        V::store(args.out[r] + i,
                 V::fma(V::load(values[r] + i), V::set(factors.chunk[r]), earlier));
      }
  }
  if (args.sinks != nullptr)
    return scale_with_sinks<V, R>(args, state);
  for (int r = 0; r < R; ++r)
    scale<V>(args.out[r], width, 1.0F / state.sum[r]);
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
