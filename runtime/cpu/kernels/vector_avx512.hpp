// Vectors of 16 floats and of 64 weight codes in AVX-512 registers: the operations that the kernel
// bodies use. Included only by kernels_avx512.cpp; internal linkage keeps this code out of files
// compiled for older CPUs.
#pragma once

#include "runtime/cpu/kernels/denormals_flushed.hpp"

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace baton::cpu {
namespace {

#define BATON_OP [[gnu::always_inline]] static inline

struct vector_avx512 {
  struct f32 {
    __m512 v;
  };
  struct i32 {
    __m512i v;
  };
  struct codes {
    __m512i v;
  };
  struct few { // four activations of 8 bits, or two of 16, in every lane
    __m512i v;
  };

  // Codes of byte panels are multiplied as unsigned: the accumulator starts at -128 * sum.
  static constexpr bool multiplies_offset_bytes = true;
  // 5 x 32 outputs is the best of 3 to 6, measured; 12 x 32 float accumulators fill the registers.
  static constexpr int quantised_rows = 5;
  static constexpr int float_rows = 12;
  static constexpr int bf16_rows = 6;         // two sums per output
  static constexpr int panel_vectors = 2;     // of 16 outputs each
  static constexpr int attention_vectors = 4; // of 16 columns each

  BATON_OP f32 zero() { return {_mm512_setzero_ps()}; }
  BATON_OP f32 set(float x) { return {_mm512_set1_ps(x)}; }
  BATON_OP f32 load(const float* p) { return {_mm512_loadu_ps(p)}; }
  BATON_OP void store(float* p, f32 a) { _mm512_storeu_ps(p, a.v); }
  BATON_OP f32 load_f16(const void* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
  }
  // The first or second elements of 16 pairs.
  template <int Second>
  BATON_OP f32 load_bf16(const void* p) {
    const __m512i pairs = _mm512_loadu_si512(p);
    return {_mm512_castsi512_ps(Second ? _mm512_and_si512(pairs, _mm512_set1_epi32(~0xFFFF))
                                       : _mm512_slli_epi32(pairs, 16))};
  }
  // To the nearest bf16, ties to even, denormals to zero, as vcvtneps2bf16 does.
  BATON_OP f32 round_to_bf16(f32 a) {
    const __m512i bits = _mm512_castps_si512(a.v), top = _mm512_set1_epi32(~0xFFFF);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i r = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), odd);
    const __mmask16 tiny = _mm512_testn_epi32_mask(bits, _mm512_set1_epi32(0x7F800000));
    r = _mm512_mask_and_epi32(r, tiny, bits, _mm512_set1_epi32(INT32_MIN));
    const __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
    r = _mm512_mask_or_epi32(r, nan, bits, _mm512_set1_epi32(0x400000));
    return {_mm512_castsi512_ps(_mm512_and_si512(r, top))};
  }
  using flushing = denormals_flushed;
  BATON_OP f32 fma_flushed(f32 a, f32 b, f32 c) { return fma(a, b, c); }
  BATON_OP f32 add_flushed(f32 a, f32 b) { return add(a, b); }
  BATON_OP f32 load_i8(const std::int8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))};
  }
  BATON_OP void store_f16(std::uint16_t* p, f32 a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
  }
  BATON_OP f32 add(f32 a, f32 b) { return {_mm512_add_ps(a.v, b.v)}; }
  BATON_OP f32 sub(f32 a, f32 b) { return {_mm512_sub_ps(a.v, b.v)}; }
  BATON_OP f32 mul(f32 a, f32 b) { return {_mm512_mul_ps(a.v, b.v)}; }
  BATON_OP f32 div(f32 a, f32 b) { return {_mm512_div_ps(a.v, b.v)}; }
  BATON_OP f32 fma(f32 a, f32 b, f32 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
  BATON_OP f32 max(f32 a, f32 b) { return {_mm512_max_ps(a.v, b.v)}; }
  BATON_OP f32 min(f32 a, f32 b) { return {_mm512_min_ps(a.v, b.v)}; }
  BATON_OP f32 abs(f32 a) { return {_mm512_abs_ps(a.v)}; }
  BATON_OP f32 round(f32 a) {
    return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
  }
  // a * 2^n for whole n in [-160, 200], rounded once.
  BATON_OP f32 scale_by_power(f32 a, f32 n) { return {_mm512_scalef_ps(a.v, n.v)}; }
  BATON_OP f32 swap_pairs(f32 a) { return {_mm512_permute_ps(a.v, 0xB1)}; }
  // Lanes below `count` from a, the others from b.
  BATON_OP f32 first_lanes(f32 a, int count, f32 b) {
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __mmask16 keep = _mm512_cmplt_epi32_mask(lane, _mm512_set1_epi32(count));
    return {_mm512_mask_blend_ps(keep, b.v, a.v)};
  }
  // ((0+8)+(4+12)) + ..: adds the upper half to the lower, down to one lane.
  BATON_OP float reduce_add(f32 a) {
    const __m256 x = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
    __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_add_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
  }
  BATON_OP float reduce_max(f32 a) { return _mm512_reduce_max_ps(a.v); }
  BATON_OP float first(f32 a) { return _mm512_cvtss_f32(a.v); }

  BATON_OP i32 set_i32(std::int32_t x) { return {_mm512_set1_epi32(x)}; }
  BATON_OP i32 to_i32(f32 a) { return {_mm512_cvtps_epi32(a.v)}; } // nearest even
  BATON_OP f32 to_f32(i32 a) { return {_mm512_cvtepi32_ps(a.v)}; }
  BATON_OP i32 add(i32 a, i32 b) { return {_mm512_add_epi32(a.v, b.v)}; }
  BATON_OP std::int32_t reduce_add(i32 a) { return _mm512_reduce_add_epi32(a.v); }
  BATON_OP void store_values(std::int8_t* p, i32 a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(a.v));
  }
  BATON_OP void store_values(std::int16_t* p, i32 a) {
    const __m256i words = _mm512_cvtsepi32_epi16(a.v);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(words, 0xD8), 0xD8));
  }

  BATON_OP codes load_codes(const std::byte* p) { return {_mm512_loadu_si512(p)}; }
  BATON_OP codes low_nibbles(codes c) { return {_mm512_and_si512(c.v, _mm512_set1_epi8(15))}; }
  BATON_OP codes high_nibbles(codes c) {
    return {_mm512_and_si512(_mm512_srli_epi16(c.v, 4), _mm512_set1_epi8(15))};
  }
  // A table of 16 bytes, for from_table.
  BATON_OP codes load_table(const std::uint8_t* bytes) {
    const __m128i once = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
    return {_mm512_broadcast_i32x4(once)};
  }
  // Each byte, 0 to 15, as an index.
  BATON_OP codes from_table(codes table, codes c) { return {_mm512_shuffle_epi8(table.v, c.v)}; }
  // `Bits` bits from bit `Shift` on of every two bytes.
  template <int Shift, int Bits>
  BATON_OP codes words(codes c) {
    const __m512i shifted = Shift == 0 ? c.v : _mm512_srli_epi16(c.v, Shift);
    return {Shift + Bits == 16 ? shifted
                               : _mm512_and_si512(shifted, _mm512_set1_epi16((1 << Bits) - 1))};
  }
  BATON_OP few broadcast(const void* p) {
    std::int32_t lane;
    std::memcpy(&lane, p, sizeof lane);
    return {_mm512_set1_epi32(lane)};
  }
  BATON_OP i32 dot_nibbles(i32 acc, codes c, few x) {
    return {_mm512_dpbusd_epi32(acc.v, c.v, x.v)};
  }
  BATON_OP i32 dot_bytes(i32 acc, codes c, few x) { return {_mm512_dpbusd_epi32(acc.v, c.v, x.v)}; }
  BATON_OP i32 dot_words(i32 acc, codes c, few x) { return {_mm512_dpwssd_epi32(acc.v, c.v, x.v)}; }
  // Into the L2 cache, because the next panel would evict this one from L1.
  BATON_OP void prefetch(const std::byte* p) { _mm_prefetch(p, _MM_HINT_T1); }
};

} // namespace
} // namespace baton::cpu
