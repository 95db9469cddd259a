// 16-bit numbers as stored in memory, and the macros that compile one kernel body for a device and
// for the host. Uses only the standard library, except in .cu files.
#pragma once

#ifdef __CUDACC__
#include <cuda_fp16.h>
#endif

#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define BATON_BODY __device__ inline
#define BATON_BOTH __host__ __device__ inline
#define BATON_UNROLL _Pragma("unroll")        // keeps arrays in registers
#define BATON_UNROLL_FOUR _Pragma("unroll 4") // allows four rounds of loads in flight
#else
#define BATON_BODY inline
#define BATON_BOTH inline
#define BATON_UNROLL
#define BATON_UNROLL_FOUR
#endif

namespace baton::gpu {

struct f16 {
  std::uint16_t bits;
};
struct bf16 {
  std::uint16_t bits;
};
// 1 sign bit, 4 exponent bits, 3 mantissa bits, no infinities (arXiv 2209.05433): up to 448.
struct e4m3 {
  std::uint8_t bits;
};
inline constexpr float e4m3_max = 448;

BATON_BODY std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
BATON_BODY float float_of(std::uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

BATON_BODY float widen(float x) {
  return x;
}
BATON_BODY float widen(bf16 x) {
  return float_of(static_cast<std::uint32_t>(x.bits) << 16);
}
// IEEE 754 binary16. A normal number gets a new exponent; a denormal is a multiple of 2^-24.
BATON_BODY float widen(f16 x) {
#ifdef __CUDA_ARCH__
  return __half2float(__ushort_as_half(x.bits));
#else
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000U) << 16;
  const std::uint32_t rest = x.bits & 0x7FFFU;
  if (rest >= 0x7C00U)
    return float_of(sign | 0x7F800000U | rest << 13);
  if (rest < 0x0400U)
    return float_of(sign | bits_of(static_cast<float>(rest) * 0x1p-24F));
  return float_of(sign | ((rest << 13) + (112U << 23)));
#endif
}

// A product moves the exponent bias from 7 to 127, which is exact for denormals too.
BATON_BODY float widen(e4m3 x) {
  const auto rest = static_cast<std::uint32_t>(x.bits & 0x7FU);
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x80U) << 24;
  if (rest == 0x7FU)
    return float_of(sign | 0x7FC00000U);
  return float_of(sign | bits_of(float_of(rest << 20) * 0x1p120F));
}

// Rounds to nearest, ties to even; NaN stays NaN.
BATON_BODY void narrow(float x, float& to) {
  to = x;
}
BATON_BODY void narrow(float x, bf16& to) {
  const std::uint32_t bits = bits_of(x);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U)
    to.bits = static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  else
    to.bits = static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}
BATON_BODY void narrow(float x, f16& to) {
#ifdef __CUDA_ARCH__
  to.bits = __half_as_ushort(__float2half_rn(x));
#else
  const std::uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000U, rest = bits & 0x7FFFFFFFU;
  std::uint32_t half = 0;
  if (rest > 0x7F800000U)
    half = 0x7E00U;
  else if (rest >= 0x477FF000U) // rounds to 2^16 or more
    half = 0x7C00U;
  else if (rest < 0x38800000U) // below 2^-14: adding 2^-1 rounds to the denormal's precision
    half = bits_of(float_of(rest) + 0.5F) - bits_of(0.5F);
  else
    half = (rest + 0xFFFU + (rest >> 13 & 1U) - (112U << 23)) >> 13;
  to.bits = static_cast<std::uint16_t>(sign | half);
#endif
}

// Values beyond e4m3_max saturate.
BATON_BODY void narrow(float x, e4m3& to) {
  const std::uint32_t bits = bits_of(x), sign = bits >> 24 & 0x80U, rest = bits & 0x7FFFFFFFU;
  std::uint32_t small = 0;
  if (rest > 0x7F800000U)
    small = 0x7F;
  else if (rest >= 0x43E00000U) // 448
    small = 0x7E;
  else if (rest < 0x3C800000U) // below 2^-6: a multiple of 2^-9
    small = bits_of(float_of(rest) + 0x1p14F) - bits_of(0x1p14F);
  else
    small = (rest + 0x7FFFFU + (rest >> 20 & 1U) - (120U << 23)) >> 20;
  to.bits = static_cast<std::uint8_t>(sign | small);
}

} // namespace baton::gpu
