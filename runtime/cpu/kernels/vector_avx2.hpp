// Vectors of 16 floats and of 64 weight codes in pairs of AVX2 registers: the operations that the
// kernel bodies use. Included only by kernels_avx2.cpp; internal linkage keeps this code out of
// files compiled for older CPUs.
#pragma once

#include "runtime/cpu/kernels/denormals_flushed.hpp"

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace baton::cpu {
namespace {

#define BATON_OP [[gnu::always_inline]] static inline

struct vector_avx2 {
  struct f32 {
    __m256 a, b;
  };
  struct i32 {
    __m256i a, b;
  };
  struct codes {
    __m256i a, b;
  };
  struct few { // four activations of 8 bits, or two of 16, in every lane
    __m256i v;
  };

  // Codes of byte panels are made signed first, because vpmaddubsw saturates on unsigned ones.
  static constexpr bool multiplies_offset_bytes = false;
  // Limits of 16 registers of 8 floats.
  static constexpr int quantised_rows = 3;
  static constexpr int float_rows = 6;
  static constexpr int bf16_rows = 3; // two sums per output
  static constexpr int panel_vectors = 1;
  static constexpr int attention_vectors = 1;

  BATON_OP f32 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  BATON_OP f32 set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  BATON_OP f32 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  BATON_OP void store(float* p, f32 x) {
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
  }
  BATON_OP f32 load_f16(const void* p) {
    const auto* half = static_cast<const __m128i*>(p);
    return {_mm256_cvtph_ps(_mm_loadu_si128(half)), _mm256_cvtph_ps(_mm_loadu_si128(half + 1))};
  }
  // The first or second elements of 16 pairs.
  template <int Second>
  BATON_OP f32 load_bf16(const void* p) {
    const auto* pairs = static_cast<const __m256i*>(p);
    return {element_of<Second>(_mm256_loadu_si256(pairs)),
            element_of<Second>(_mm256_loadu_si256(pairs + 1))};
  }
  // To the nearest bf16, ties to even, denormals to zero, as vcvtneps2bf16 does.
  BATON_OP f32 round_to_bf16(f32 x) { return {round_half(x.a), round_half(x.b)}; }
  using flushing = denormals_flushed;
  BATON_OP f32 fma_flushed(f32 x, f32 y, f32 z) { return fma(x, y, z); }
  BATON_OP f32 add_flushed(f32 x, f32 y) { return add(x, y); }
  BATON_OP f32 load_i8(const std::int8_t* p) {
    const __m256i a = _mm256_cvtepi8_epi32(_mm_loadu_si64(p));
    const __m256i b = _mm256_cvtepi8_epi32(_mm_loadu_si64(p + 8));
    return {_mm256_cvtepi32_ps(a), _mm256_cvtepi32_ps(b)};
  }
  BATON_OP void store_f16(std::uint16_t* p, f32 x) {
    auto* out = reinterpret_cast<__m128i*>(p);
    _mm_storeu_si128(out, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(out + 1, _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
  }
  BATON_OP f32 add(f32 x, f32 y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
  BATON_OP f32 sub(f32 x, f32 y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
  BATON_OP f32 mul(f32 x, f32 y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
  BATON_OP f32 div(f32 x, f32 y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
  BATON_OP f32 fma(f32 x, f32 y, f32 z) {
    return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
  }
  BATON_OP f32 max(f32 x, f32 y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
  BATON_OP f32 min(f32 x, f32 y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
  BATON_OP f32 abs(f32 x) {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
  }
  BATON_OP f32 round(f32 x) {
    constexpr int mode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(x.a, mode), _mm256_round_ps(x.b, mode)};
  }
  // a * 2^n for whole n in [-160, 200], rounded once: the first factor keeps a normal.
  BATON_OP f32 scale_by_power(f32 x, f32 n) { return {scale_half(x.a, n.a), scale_half(x.b, n.b)}; }
  BATON_OP f32 swap_pairs(f32 x) {
    return {_mm256_permute_ps(x.a, 0xB1), _mm256_permute_ps(x.b, 0xB1)};
  }
  // Lanes below `count` from x, the others from y.
  BATON_OP f32 first_lanes(f32 x, int count, f32 y) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256 a = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(count), lane));
    const __m256 b = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(count - 8), lane));
    return {_mm256_blendv_ps(y.a, x.a, a), _mm256_blendv_ps(y.b, x.b, b)};
  }
  // ((0+8)+(4+12)) + ..: adds the upper half to the lower, down to one lane.
  BATON_OP float reduce_add(f32 v) {
    const __m256 x = _mm256_add_ps(v.a, v.b);
    __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_add_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
  }
  BATON_OP float reduce_max(f32 v) {
    const __m256 x = _mm256_max_ps(v.a, v.b);
    __m128 y = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_max_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_max_ss(y, _mm_movehdup_ps(y)));
  }
  BATON_OP float first(f32 x) { return _mm256_cvtss_f32(x.a); }

  BATON_OP i32 set_i32(std::int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
  BATON_OP i32 to_i32(f32 x) { return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
  BATON_OP f32 to_f32(i32 x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
  BATON_OP i32 add(i32 x, i32 y) {
    return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)};
  }
  BATON_OP std::int32_t reduce_add(i32 v) {
    const __m256i x = _mm256_add_epi32(v.a, v.b);
    __m128i y = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    y = _mm_add_epi32(y, _mm_shuffle_epi32(y, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(y, _mm_shuffle_epi32(y, 0xB1)));
  }
  BATON_OP void store_values(std::int16_t* p, i32 x) {
    const __m256i words = to_words(x);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(words, 0xD8), 0xD8));
  }
  BATON_OP void store_values(std::int8_t* p, i32 x) {
    const __m256i words = to_words(x);
    const __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
  }

  BATON_OP codes load_codes(const std::byte* p) {
    const auto* q = reinterpret_cast<const __m256i*>(p);
    return {_mm256_loadu_si256(q), _mm256_loadu_si256(q + 1)};
  }
  BATON_OP codes low_nibbles(codes c) {
    const __m256i mask = _mm256_set1_epi8(15);
    return {_mm256_and_si256(c.a, mask), _mm256_and_si256(c.b, mask)};
  }
  BATON_OP codes high_nibbles(codes c) {
    return low_nibbles({_mm256_srli_epi16(c.a, 4), _mm256_srli_epi16(c.b, 4)});
  }
  // A table of 16 bytes, for from_table.
  BATON_OP codes load_table(const std::uint8_t* bytes) {
    const __m256i twice =
        _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
    return {twice, twice};
  }
  // Each byte, 0 to 15, as an index.
  BATON_OP codes from_table(codes table, codes c) {
    return {_mm256_shuffle_epi8(table.a, c.a), _mm256_shuffle_epi8(table.a, c.b)};
  }
  // `Bits` bits from bit `Shift` on of every two bytes.
  template <int Shift, int Bits>
  BATON_OP codes words(codes c) {
    const __m256i mask = _mm256_set1_epi16((1 << Bits) - 1);
    return {_mm256_and_si256(_mm256_srli_epi16(c.a, Shift), mask),
            _mm256_and_si256(_mm256_srli_epi16(c.b, Shift), mask)};
  }
  BATON_OP few broadcast(const void* p) {
    std::int32_t lane;
    std::memcpy(&lane, p, sizeof lane);
    return {_mm256_set1_epi32(lane)};
  }
  BATON_OP i32 dot_nibbles(i32 acc, codes c, few x) {
    return {dot_half(acc.a, c.a, x.v), dot_half(acc.b, c.b, x.v)};
  }
  BATON_OP i32 dot_bytes(i32 acc, codes c, few x) {
    return {dot_signed_half(acc.a, c.a, x.v), dot_signed_half(acc.b, c.b, x.v)};
  }
  BATON_OP i32 dot_words(i32 acc, codes c, few x) {
    return {_mm256_add_epi32(acc.a, _mm256_madd_epi16(c.a, x.v)),
            _mm256_add_epi32(acc.b, _mm256_madd_epi16(c.b, x.v))};
  }
  // Into the L2 cache, because the next panel would evict this one from L1.
  BATON_OP void prefetch(const std::byte* p) { _mm_prefetch(p, _MM_HINT_T1); }

private:
  template <int Second>
  BATON_OP __m256 element_of(__m256i pairs) {
    return _mm256_castsi256_ps(Second ? _mm256_and_si256(pairs, _mm256_set1_epi32(~0xFFFF))
                                      : _mm256_slli_epi32(pairs, 16));
  }
  BATON_OP __m256 round_half(__m256 x) {
    const __m256i bits = _mm256_castps_si256(x), exponent = _mm256_set1_epi32(0x7F800000);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i r = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd);
    const __m256i tiny =
        _mm256_cmpeq_epi32(_mm256_and_si256(bits, exponent), _mm256_setzero_si256());
    r = _mm256_blendv_epi8(r, _mm256_and_si256(bits, _mm256_set1_epi32(INT32_MIN)), tiny);
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    r = _mm256_blendv_epi8(r, _mm256_or_si256(bits, _mm256_set1_epi32(0x400000)), nan);
    return _mm256_castsi256_ps(_mm256_and_si256(r, _mm256_set1_epi32(~0xFFFF)));
  }
  // Packing works within 128-bit lanes, so the four quarters are reordered.
  BATON_OP __m256i to_words(i32 x) {
    return _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xD8);
  }
  BATON_OP __m256 scale_half(__m256 x, __m256 n) {
    const __m256i whole = _mm256_cvtps_epi32(n);
    const __m256i half = _mm256_srai_epi32(whole, 1);
    const __m256i rest = _mm256_sub_epi32(whole, half);
    return _mm256_mul_ps(_mm256_mul_ps(x, power_of_two(half)), power_of_two(rest));
  }
  BATON_OP __m256 power_of_two(__m256i n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
  }
  // Exact: pairs of products stay below 2^15 (2 * 128 * 127).
  BATON_OP __m256i dot_half(__m256i acc, __m256i c, __m256i x) {
    const __m256i pairs = _mm256_maddubs_epi16(c, x);
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  BATON_OP __m256i dot_signed_half(__m256i acc, __m256i c, __m256i x) {
    const __m256i code = _mm256_xor_si256(c, _mm256_set1_epi8(-128));
    return dot_half(acc, _mm256_abs_epi8(code), _mm256_sign_epi8(x, code));
  }
};

} // namespace
} // namespace baton::cpu
