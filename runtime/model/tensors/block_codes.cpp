// Layouts as in the GGUF specification (block_q*_K, block_iq4_*, block_mxfp4, block_tq* in ggml).
#include "runtime/model/tensors/block_codes.hpp"

#include "runtime/model/tensors/block_bytes.hpp"
#include "runtime/model/tensors/code_tables.hpp"

#include <bit>

namespace baton::model {
namespace {

// One scale for all; `number_of(k)` is the code of element k.
template <class Number>
block_codes with_scale(float scale, Number number_of) noexcept {
  block_codes found{.codes = {}, .scale = {scale, scale}, .min = {0.0F, 0.0F}};
  for (std::size_t k = 0; k < codes_per_group; ++k) {
    found.codes[k] = static_cast<std::int8_t>(number_of(k));
  }
  return found;
}

// Two bits of element 32 * group + k. Two halves of 128 elements have 32 bytes each. In a half,
// byte k has the pairs of elements k, 32 + k, 64 + k and 96 + k, lowest first.
std::uint32_t pair_at(const std::byte* quants, std::size_t group, std::size_t k) noexcept {
  return u8_at(quants + group / 4 * 32 + k) >> (group % 4 * 2) & 3U;
}

// `[16 bytes: 4-bit scale, 4-bit min][64 bytes of pairs][f16 d][f16 dmin]`. Each 16 elements have a
// scale and a min: x = (d * scale) * q - dmin * min
block_codes read_q2_k(const std::byte* block, std::size_t group) noexcept {
  auto found = with_scale(0.0F, [&](std::size_t k) { return pair_at(block + 16, group, k); });
  for (std::size_t half = 0; half < 2; ++half) {
    const std::uint32_t both = u8_at(block + 2 * group + half);
    found.scale[half] = f16_at(block + 80) * static_cast<float>(both & 15U);
    found.min[half] = f16_at(block + 82) * static_cast<float>(both >> 4U);
  }
  return found;
}

// `[32 bytes of third bits][64 bytes of pairs][12 bytes of 6-bit scales][f16 d]`. Bit g of byte k
// belongs to element 32 g + k; where it is clear, 4 is subtracted. Scale i of 16 has its low four
// bits in the nibbles of bytes 0 to 7. Its upper two are at bit 2 (i / 4) of byte 8 + i % 4.
// x = (d * (scale - 32)) * q
block_codes read_q3_k(const std::byte* block, std::size_t group) noexcept {
  auto found = with_scale(0.0F, [&](std::size_t k) {
    const bool is_high = (u8_at(block + k) >> group & 1U) != 0;
    return static_cast<int>(pair_at(block + 32, group, k)) - (is_high ? 0 : 4);
  });
  const std::byte* scales = block + 96;
  for (std::size_t half = 0; half < 2; ++half) {
    const std::size_t i = 2 * group + half;
    const std::uint32_t low = u8_at(scales + i % 8) >> (i / 8 * 4) & 15U;
    const std::uint32_t high = u8_at(scales + 8 + i % 4) >> (i / 4 * 2) & 3U;
    found.scale[half] = f16_at(block + 108) * (static_cast<float>(low | high << 4U) - 32.0F);
  }
  return found;
}

// `[f16 d][16 bytes of nibbles]`: x = d * number
block_codes read_iq4_nl(const std::byte* block, std::size_t) noexcept {
  return with_scale(f16_at(block),
                    [&](std::size_t k) { return iq4_numbers[nibble_at(block + 2, k)]; });
}

// `[f16 d][u16 upper scale bits][4 bytes of lower scale bits][128 bytes of nibbles]`. Eight groups
// of 32: x = (d * (scale - 32)) * number
block_codes read_iq4_xs(const std::byte* block, std::size_t group) noexcept {
  const std::uint32_t low = u8_at(block + 4 + group / 2) >> (group % 2 * 4) & 15U;
  const std::uint32_t high = static_cast<std::uint32_t>(u16_at(block + 2)) >> (group * 2) & 3U;
  const std::byte* quants = block + 8 + group * 16;
  return with_scale(f16_at(block) * (static_cast<float>(low | high << 4U) - 32.0F),
                    [&](std::size_t k) { return iq4_numbers[nibble_at(quants, k)]; });
}

// Half of 2^(exponent - 127): the numbers are twice the values. Two exponents are denormal.
float half_of_e8m0(std::uint32_t exponent) noexcept {
  return std::bit_cast<float>(exponent < 2 ? 0x00200000U << exponent : (exponent - 1U) << 23U);
}

// `[E8M0 scale][16 bytes of nibbles]`: x = 2^(scale - 127) / 2 * number
block_codes read_mxfp4(const std::byte* block, std::size_t) noexcept {
  return with_scale(half_of_e8m0(u8_at(block)),
                    [&](std::size_t k) { return e2m1_numbers[nibble_at(block + 1, k)]; });
}

// `[64 bytes of pairs][f16 d]`: x = d * (q - 1)
block_codes read_tq2_0(const std::byte* block, std::size_t group) noexcept {
  return with_scale(f16_at(block + 64),
                    [&](std::size_t k) { return static_cast<int>(pair_at(block, group, k)) - 1; });
}

// `[48 bytes of five digits][4 bytes of four digits][f16 d]`, digits of base 3. A byte is the
// fraction of its digits over 256, rounded up. Multiplied by 3 it has the first digit above its
// eight bits, and the fraction of the others in them. Three runs of bytes, 32, 16 and 4, have the
// elements from 0, 160 and 240 on. The first digits of all bytes come first. x = d * (q - 1)
block_codes read_tq1_0(const std::byte* block, std::size_t group) noexcept {
  constexpr std::uint32_t powers[] = {1, 3, 9, 27, 81};
  return with_scale(f16_at(block + 52), [&](std::size_t k) {
    struct run {
      std::size_t first, bytes;
    };
    const std::size_t e = group * codes_per_group + k;
    const run in = e < 160 ? run{0, 32} : e < 240 ? run{160, 16} : run{240, 4};
    const std::size_t at = in.first / 5 + (e - in.first) % in.bytes;
    const std::uint32_t rest = u8_at(block + at) * powers[(e - in.first) / in.bytes] & 255U;
    return static_cast<int>(rest * 3U >> 8U) - 1;
  });
}

} // namespace

code_reader code_reader_of(tensor_type type) noexcept {
  switch (type) {
  case tensor_type::q2_k:
    return read_q2_k;
  case tensor_type::q3_k:
    return read_q3_k;
  case tensor_type::iq4_nl:
    return read_iq4_nl;
  case tensor_type::iq4_xs:
    return read_iq4_xs;
  case tensor_type::mxfp4:
    return read_mxfp4;
  case tensor_type::tq1_0:
    return read_tq1_0;
  case tensor_type::tq2_0:
    return read_tq2_0;
  default:
    return grid_code_reader_of(type);
  }
}

} // namespace baton::model
