// Blocks of the IQ1, IQ2 and IQ3 types (block_iq* in ggml): 256 elements in groups of 32. A group
// has indexes of points of a grid (code_grids.hpp), signs, and one scale or one for each half.
#include "runtime/model/tensors/block_bytes.hpp"
#include "runtime/model/tensors/block_codes.hpp"
#include "runtime/model/tensors/code_grids.hpp"

#include <bit>

namespace baton::model {
namespace {

// Eight signs from seven: the number of negative elements is even.
std::uint32_t even_signs(std::uint32_t seven) noexcept {
  return seven | (static_cast<std::uint32_t>(std::popcount(seven)) & 1U) << 7U;
}

// Eight elements, with the sign of element k in bit k.
template <class Point>
void put_signed(block_codes& to, std::size_t eighth, const Point& point,
                std::uint32_t signs) noexcept {
  for (std::size_t k = 0; k < 8; ++k) {
    const auto number = point(k);
    to.codes[eighth * 8 + k] = static_cast<std::int8_t>((signs >> k & 1U) != 0 ? -number : number);
  }
}

block_codes with_scales(float lower, float upper) noexcept {
  return {.codes = {}, .scale = {lower, upper}, .min = {0.0F, 0.0F}};
}

// d * (0.5 + scale) * unit
float odd_scale(float d, std::uint32_t scale, float unit) noexcept {
  return d * (0.5F + static_cast<float>(scale)) * unit;
}

// Nibble `half` of a byte.
std::uint32_t half_of(const std::byte* at, std::size_t half) noexcept {
  return u8_at(at) >> (4 * half) & 15U;
}

// `[f16 d]`, then for each group `[4 indexes of 8 bits][u32: four times 7 signs, 4-bit scale]`:
// x = d * (0.5 + scale) / 4 * point
block_codes read_iq2_xxs(const std::byte* block, std::size_t group) noexcept {
  const std::byte* at = block + 2 + group * 8;
  const std::uint32_t both = u32_at(at + 4);
  const float scale = odd_scale(f16_at(block), both >> 28U, 0.25F);
  auto found = with_scales(scale, scale);
  for (std::size_t j = 0; j < 4; ++j) {
    const auto& point = iq2_xxs_grid[u8_at(at + j)];
    put_signed(
        found, j, [&](std::size_t k) { return point[k]; }, even_signs(both >> (7 * j) & 127U));
  }
  return found;
}

// `[f16 d][32 x u16: index of 9 bits, 7 signs][8 bytes of two 4-bit scales]`
block_codes read_iq2_xs(const std::byte* block, std::size_t group) noexcept {
  const float d = f16_at(block);
  const std::byte* scales = block + 66 + group;
  auto found =
      with_scales(odd_scale(d, half_of(scales, 0), 0.25F), odd_scale(d, half_of(scales, 1), 0.25F));
  for (std::size_t j = 0; j < 4; ++j) {
    const std::uint32_t both = u16_at(block + 2 + group * 8 + 2 * j);
    const auto& point = iq2_xs_grid[both & 511U];
    put_signed(
        found, j, [&](std::size_t k) { return point[k]; }, even_signs(both >> 9U));
  }
  return found;
}

// `[f16 d][32 indexes, lower 8 bits][32 bytes of signs][8 bytes of four upper pairs][8 bytes of two
// 4-bit scales]`
block_codes read_iq2_s(const std::byte* block, std::size_t group) noexcept {
  const float d = f16_at(block);
  const std::byte* scales = block + 74 + group;
  auto found =
      with_scales(odd_scale(d, half_of(scales, 0), 0.25F), odd_scale(d, half_of(scales, 1), 0.25F));
  for (std::size_t j = 0; j < 4; ++j) {
    const std::uint32_t upper = u8_at(block + 66 + group) >> (2 * j) & 3U;
    const auto& point = iq2_s_grid[u8_at(block + 2 + group * 4 + j) | upper << 8U];
    put_signed(
        found, j, [&](std::size_t k) { return point[k]; }, u8_at(block + 34 + group * 4 + j));
  }
  return found;
}

// `[f16 d][64 indexes of 8 bits][8 x u32: four times 7 signs, 4-bit scale]`:
// x = d * (0.5 + scale) / 2 * point
block_codes read_iq3_xxs(const std::byte* block, std::size_t group) noexcept {
  const std::uint32_t both = u32_at(block + 66 + group * 4);
  const float scale = odd_scale(f16_at(block), both >> 28U, 0.5F);
  auto found = with_scales(scale, scale);
  for (std::size_t j = 0; j < 4; ++j) {
    const std::byte* indexes = block + 2 + group * 8 + 2 * j;
    put_signed(
        found, j, [&](std::size_t k) { return iq3_xxs_grid[u8_at(indexes + k / 4)][k % 4]; },
        even_signs(both >> (7 * j) & 127U));
  }
  return found;
}

// `[f16 d][64 indexes, lower 8 bits][8 bytes of upper bits][32 bytes of signs][4 bytes of two 4-bit
// scales]`: x = d * (1 + 2 * scale) * point
block_codes read_iq3_s(const std::byte* block, std::size_t group) noexcept {
  const float scale =
      f16_at(block) * static_cast<float>(1 + 2 * half_of(block + 106 + group / 2, group % 2));
  auto found = with_scales(scale, scale);
  const std::uint32_t upper = u8_at(block + 66 + group);
  for (std::size_t j = 0; j < 4; ++j) {
    const auto number = [&](std::size_t k) {
      const std::size_t i = 2 * j + k / 4;
      return iq3_s_grid[u8_at(block + 2 + group * 8 + i) | (upper >> i & 1U) << 8U][k % 4];
    };
    put_signed(found, j, number, u8_at(block + 74 + group * 4 + j));
  }
  return found;
}

// Points of IQ1 are moved by an eighth up or down, so the codes are eighths.
void put_moved(block_codes& to, std::size_t eighth, std::uint32_t index, bool is_down) noexcept {
  put_signed(
      to, eighth, [&](std::size_t k) { return 8 * iq1_grid[index][k] + (is_down ? -1 : 1); }, 0);
}

// `[f16 d][32 indexes, lower 8 bits][8 x u16: four times 3 upper bits, 3-bit scale, direction]`:
// x = d * (1 + 2 * scale) * (point + or - 1/8)
block_codes read_iq1_s(const std::byte* block, std::size_t group) noexcept {
  const std::uint32_t both = u16_at(block + 34 + group * 2);
  const float scale = f16_at(block) * static_cast<float>(2 * (both >> 12U & 7U) + 1) * 0.125F;
  auto found = with_scales(scale, scale);
  for (std::size_t j = 0; j < 4; ++j) {
    const std::uint32_t upper = both >> (3 * j) & 7U;
    put_moved(found, j, u8_at(block + 2 + group * 4 + j) | upper << 8U, (both >> 15U) != 0);
  }
  return found;
}

// `[32 indexes, lower 8 bits][16 bytes: twice 3 upper bits and a direction][4 x u16: four 3-bit
// scales]`. The top nibbles of the last four words are the f16 d, lowest first.
block_codes read_iq1_m(const std::byte* block, std::size_t group) noexcept {
  const std::byte* words = block + 48;
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    bits |= static_cast<std::uint32_t>(u16_at(words + 2 * i)) >> 12U << (4 * i);
  }
  const float d = f16_to_f32(static_cast<std::uint16_t>(bits));
  const auto scale = [&](std::size_t i) { // of 16 elements
    const std::uint32_t own = static_cast<std::uint32_t>(u16_at(words + i / 4 * 2)) >> (i % 4 * 3);
    return d * static_cast<float>(2 * (own & 7U) + 1) * 0.125F;
  };
  auto found = with_scales(scale(2 * group), scale(2 * group + 1));
  for (std::size_t j = 0; j < 4; ++j) {
    const std::uint32_t both = half_of(block + 32 + group * 2 + j / 2, j % 2);
    put_moved(found, j, u8_at(block + group * 4 + j) | (both & 7U) << 8U, (both & 8U) != 0);
  }
  return found;
}

} // namespace

code_reader grid_code_reader_of(tensor_type type) noexcept {
  switch (type) {
  case tensor_type::iq2_xxs:
    return read_iq2_xxs;
  case tensor_type::iq2_xs:
    return read_iq2_xs;
  case tensor_type::iq2_s:
    return read_iq2_s;
  case tensor_type::iq3_xxs:
    return read_iq3_xxs;
  case tensor_type::iq3_s:
    return read_iq3_s;
  case tensor_type::iq1_s:
    return read_iq1_s;
  case tensor_type::iq1_m:
    return read_iq1_m;
  default:
    return nullptr;
  }
}

} // namespace baton::model
