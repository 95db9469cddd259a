// Narrow floating-point formats in integer arithmetic, so every machine produces the same bits.
#include "runtime/model/tensors/tensor.hpp"

#include <bit>

namespace baton::model {

float f16_to_f32(std::uint16_t half) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16U;
  const std::uint32_t exponent = (half >> 10U) & 0x1FU;
  const std::uint32_t fraction = half & 0x3FFU;
  if (exponent == 0) { // zero or denormal: fraction * 2^-24, exact in float32
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  // 31 is infinity or NaN; otherwise the bias changes from 15 to 127.
  const std::uint32_t wide = exponent == 31 ? 255U : exponent + 112U;
  return std::bit_cast<float>(sign | wide << 23U | fraction << 13U);
}

std::uint16_t f32_to_f16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16U) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  std::uint32_t half = 0;
  if (magnitude > 0x7F800000U) { // NaN: quiet, the upper payload bits kept
    half = 0x7E00U | ((magnitude >> 13U) & 0x3FFU);
  } else if (magnitude >= 0x477FF000U) { // 65520 and above round to infinity
    half = 0x7C00U;
  } else if (magnitude >= 0x38800000U) { // 2^-14 and above: normal in binary16
    const std::uint32_t rounded = magnitude + 0xFFFU + ((magnitude >> 13U) & 1U);
    half = (rounded - 0x38000000U) >> 13U; // a carry correctly moves into the exponent
  } else if (magnitude >= 0x33000000U) {   // 2^-25 and above: a multiple of 2^-24 after rounding
    const std::uint32_t shift = 126U - (magnitude >> 23U);
    const std::uint32_t fraction = (magnitude & 0x7FFFFFU) | 0x800000U;
    const std::uint32_t kept = fraction >> shift;
    const std::uint32_t lost = fraction & ((1U << shift) - 1U);
    const std::uint32_t tie = 1U << (shift - 1U);
    half = kept + ((lost > tie || (lost == tie && (kept & 1U) != 0)) ? 1U : 0U);
  } // below 2^-25: zero
  return static_cast<std::uint16_t>(sign | half);
}

float bf16_to_f32(std::uint16_t brain) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(brain) << 16U);
}

std::uint16_t f32_to_bf16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) {
    return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);
  }
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

} // namespace baton::model
