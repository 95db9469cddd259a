// The scalar decoder of every supported block layout: the reference for the kernels, and fast
// enough for rows read once. Layouts as in the GGUF specification (block_q* in ggml).
#include "runtime/model/tensors/block_bytes.hpp"
#include "runtime/model/tensors/block_codes.hpp"
#include "schema/ensure.hpp"

#include <bit>

namespace baton::model {
namespace {

float i8_at(const std::byte* at) noexcept {
  return static_cast<float>(static_cast<std::int8_t>(u8_at(at)));
}

void decode_f32(const std::byte* block, float* out) noexcept {
  *out = std::bit_cast<float>(u32_at(block));
}
void decode_f16(const std::byte* block, float* out) noexcept {
  *out = f16_at(block);
}
void decode_bf16(const std::byte* block, float* out) noexcept {
  *out = bf16_to_f32(u16_at(block));
}

// [f16 d][32 x i8 q]: x = d * q
void decode_q8_0(const std::byte* block, float* out) noexcept {
  const float d = f16_at(block);
  for (std::size_t k = 0; k < 32; ++k) {
    out[k] = d * i8_at(block + 2 + k);
  }
}

// [f16 d][16 bytes of nibbles]: x = d * (q - 8)
void decode_q4_0(const std::byte* block, float* out) noexcept {
  const float d = f16_at(block);
  for (std::size_t k = 0; k < 32; ++k) {
    out[k] = d * (static_cast<float>(nibble_at(block + 2, k)) - 8.0F);
  }
}

// [f16 d][f16 m][16 bytes of nibbles]: x = d * q + m
void decode_q4_1(const std::byte* block, float* out) noexcept {
  const float d = f16_at(block);
  const float m = f16_at(block + 2);
  for (std::size_t k = 0; k < 32; ++k) {
    out[k] = d * static_cast<float>(nibble_at(block + 4, k)) + m;
  }
}

// [f16 d][u32 fifth bits][16 bytes of nibbles]: x = d * (q - 16)
void decode_q5_0(const std::byte* block, float* out) noexcept {
  const float d = f16_at(block);
  const std::uint32_t high = u32_at(block + 2);
  for (std::size_t k = 0; k < 32; ++k) {
    const std::uint32_t q = nibble_at(block + 6, k) | ((high >> k) & 1U) << 4U;
    out[k] = d * (static_cast<float>(q) - 16.0F);
  }
}

// [f16 d][f16 m][u32 fifth bits][16 bytes of nibbles]: x = d * q + m
void decode_q5_1(const std::byte* block, float* out) noexcept {
  const float d = f16_at(block);
  const float m = f16_at(block + 2);
  const std::uint32_t high = u32_at(block + 4);
  for (std::size_t k = 0; k < 32; ++k) {
    const std::uint32_t q = nibble_at(block + 8, k) | ((high >> k) & 1U) << 4U;
    out[k] = d * static_cast<float>(q) + m;
  }
}

struct scale_and_min {
  float scale;
  float min;
};

// Q4_K and Q5_K keep eight 6-bit scales and eight 6-bit mins in 12 bytes. Entries 0 to 3: the low
// six bits of bytes 0..3 (scales) and 4..7 (mins). Entries 4 to 7: the low four bits in the nibbles
// of bytes 8..11 (scales low, mins high), the upper two in the top bits of bytes 0..7.
scale_and_min packed_scale(const std::byte* scales, std::size_t i) noexcept {
  if (i < 4) {
    return {static_cast<float>(u8_at(scales + i) & 63U),
            static_cast<float>(u8_at(scales + i + 4) & 63U)};
  }
  const std::uint32_t low = u8_at(scales + i + 4);
  const std::uint32_t scale = (low & 15U) | (u8_at(scales + i - 4) >> 6U) << 4U;
  const std::uint32_t min = low >> 4U | (u8_at(scales + i) >> 6U) << 4U;
  return {static_cast<float>(scale), static_cast<float>(min)};
}

// `[f16 d][f16 dmin][12 bytes of 6-bit scales and mins][128 bytes of nibbles]`. Eight groups of 32.
// Groups 2g and 2g + 1 are the low and high nibbles of the same 32 bytes:
// x = (d * scale) * q - (dmin * min)
void decode_q4_k(const std::byte* block, float* out) noexcept {
  for (std::size_t group = 0; group < 8; ++group) {
    const auto [scale, min] = packed_scale(block + 4, group);
    const float d = f16_at(block) * scale;
    const float m = f16_at(block + 2) * min;
    const std::byte* quants = block + 16 + group / 2 * 32;
    for (std::size_t k = 0; k < 32; ++k) {
      const std::uint32_t q = (u8_at(quants + k) >> (group % 2 * 4)) & 15U;
      out[group * 32 + k] = d * static_cast<float>(q) - m;
    }
  }
}

// Like Q4_K with 32 bytes of fifth bits before the nibbles: bit g of byte k belongs to group g.
void decode_q5_k(const std::byte* block, float* out) noexcept {
  for (std::size_t group = 0; group < 8; ++group) {
    const auto [scale, min] = packed_scale(block + 4, group);
    const float d = f16_at(block) * scale;
    const float m = f16_at(block + 2) * min;
    const std::byte* high = block + 16;
    const std::byte* quants = block + 48 + group / 2 * 32;
    for (std::size_t k = 0; k < 32; ++k) {
      const std::uint32_t low = (u8_at(quants + k) >> (group % 2 * 4)) & 15U;
      const std::uint32_t q = low | ((u8_at(high + k) >> group) & 1U) << 4U;
      out[group * 32 + k] = d * static_cast<float>(q) - m;
    }
  }
}

// `[128 bytes of low nibbles][64 bytes of upper bit pairs][16 x i8 scales][f16 d]`. Two halves of
// 128 elements. In a half, element 32 j + l has its low bits in byte 32 (j % 2) + l (low nibble for
// j < 2). Its upper pair is at bit 2 j of byte l. Each 16 elements share a scale:
// x = (d * scale) * (q - 32)
void decode_q6_k(const std::byte* block, float* out) noexcept {
  const float d = f16_at(block + 208);
  for (std::size_t k = 0; k < 256; ++k) {
    const std::size_t half = k / 128;
    const std::size_t j = k % 128 / 32;
    const std::size_t l = k % 32;
    const std::uint32_t low = u8_at(block + half * 64 + j % 2 * 32 + l) >> (j / 2 * 4) & 15U;
    const std::uint32_t high = u8_at(block + 128 + half * 32 + l) >> (2 * j) & 3U;
    const float q = static_cast<float>(low | high << 4U) - 32.0F;
    out[k] = d * i8_at(block + 192 + k / 16) * q;
  }
}

using block_decoder = void (*)(const std::byte* block, float* out) noexcept;

block_decoder decoder_of(tensor_type type) noexcept {
  switch (type) {
  case tensor_type::f32:
    return decode_f32;
  case tensor_type::f16:
    return decode_f16;
  case tensor_type::bf16:
    return decode_bf16;
  case tensor_type::q8_0:
    return decode_q8_0;
  case tensor_type::q4_0:
    return decode_q4_0;
  case tensor_type::q4_1:
    return decode_q4_1;
  case tensor_type::q5_0:
    return decode_q5_0;
  case tensor_type::q5_1:
    return decode_q5_1;
  case tensor_type::q4_k:
    return decode_q4_k;
  case tensor_type::q5_k:
    return decode_q5_k;
  case tensor_type::q6_k:
    return decode_q6_k;
  default:
    return nullptr;
  }
}

void decode_codes(code_reader read, const std::byte* block, std::size_t n, float* out) noexcept {
  for (std::size_t group = 0; group < n / codes_per_group; ++group) {
    const auto [codes, scale, min] = read(block, group);
    for (std::size_t k = 0; k < codes_per_group; ++k) {
      *out++ = scale[k / 16] * static_cast<float>(codes[k]) - min[k / 16];
    }
  }
}

} // namespace

void dequantize_row(tensor_type type, const std::byte* src, float* dst, std::size_t n) {
  const auto& traits = tensor_type_traits(type);
  const auto decode = decoder_of(type);
  const auto read = code_reader_of(type);
  ENSURE(decode != nullptr || read != nullptr, "tensors of type {} are not decoded", traits.name);
  ENSURE(n % traits.block_elements == 0, "{} elements of {} are not whole blocks", n, traits.name);
  for (std::size_t k = 0; k < n; k += traits.block_elements, src += traits.block_bytes) {
    if (decode != nullptr) {
      decode(src, dst + k);
    } else {
      decode_codes(read, src, traits.block_elements, dst + k);
    }
  }
}

} // namespace baton::model
