// Little-endian fields of a block of weights, at any alignment. Private to this folder.
#pragma once

#include "runtime/model/tensors/tensor.hpp"

namespace baton::model {

inline std::uint32_t u8_at(const std::byte* at) noexcept {
  return std::to_integer<std::uint32_t>(*at);
}

inline std::uint16_t u16_at(const std::byte* at) noexcept {
  return static_cast<std::uint16_t>(u8_at(at) | u8_at(at + 1) << 8U);
}

inline std::uint32_t u32_at(const std::byte* at) noexcept {
  return u16_at(at) | static_cast<std::uint32_t>(u16_at(at + 2)) << 16U;
}

inline float f16_at(const std::byte* at) noexcept {
  return f16_to_f32(u16_at(at));
}

// Element k of 32 nibbles in 16 bytes: the low halves come first.
inline std::uint32_t nibble_at(const std::byte* quants, std::size_t k) noexcept {
  return k < 16 ? u8_at(quants + k) & 15U : u8_at(quants + k - 16) >> 4U;
}

} // namespace baton::model
