// The plain encoders of tests/support/gguf_writer.hpp: one block at a time, round to nearest.
#include "tests/support/quantize_steps.hpp"

#include <array>

namespace baton::testing {
namespace {

// 32 quanta of up to five bits: the fifth bits as a u32 (if wanted), then low halves, high halves.
void put_quanta(byte_buffer& out, const std::array<std::uint32_t, 32>& q, bool has_fifth_bits) {
  if (has_fifth_bits) {
    std::uint32_t high = 0;
    for (std::size_t k = 0; k < 32; ++k) {
      high |= (q[k] >> 4U) << k;
    }
    out.put(high);
  }
  for (std::size_t k = 0; k < 16; ++k) {
    out.put(static_cast<std::uint8_t>((q[k] & 15U) | (q[k + 16] & 15U) << 4U));
  }
}

// Q4_0 (bits 4) and Q5_0 (bits 5): the extreme value gets the most negative quantum.
void put_symmetric(byte_buffer& out, block_values values, std::uint32_t bits) {
  const auto half = std::int32_t{1} << (bits - 1);
  const float d = rounded_f16(extreme(values) / -static_cast<float>(half));
  std::array<std::uint32_t, 32> q{};
  for (std::size_t k = 0; k < 32; ++k) {
    q[k] = static_cast<std::uint32_t>(quantum(values[k], d, -half, half - 1) + half);
  }
  out.put(model::f32_to_f16(d));
  put_quanta(out, q, bits == 5);
}

// Q4_1 and Q5_1: from the minimum upwards.
void put_affine(byte_buffer& out, block_values values, std::uint32_t bits) {
  const auto top = (std::int32_t{1} << bits) - 1;
  const auto [low, high] = std::ranges::minmax(values);
  const float d = rounded_f16((high - low) / static_cast<float>(top));
  const float m = rounded_f16(low);
  std::array<std::uint32_t, 32> q{};
  for (std::size_t k = 0; k < 32; ++k) {
    q[k] = static_cast<std::uint32_t>(quantum(values[k] - m, d, 0, top));
  }
  out.put(model::f32_to_f16(d)).put(model::f32_to_f16(m));
  put_quanta(out, q, bits == 5);
}

void put_q8_0(byte_buffer& out, block_values values) {
  const float d = rounded_f16(std::fabs(extreme(values)) / 127.0F);
  out.put(model::f32_to_f16(d));
  for (const float value : values) {
    out.put(static_cast<std::int8_t>(quantum(value, d, -127, 127)));
  }
}

// Q4_K and Q5_K: eight groups of 32, x = d * scale * q - dmin * min with 6-bit scale and min.
void put_k_affine(byte_buffer& out, block_values values, std::uint32_t bits) {
  const auto top = (std::int32_t{1} << bits) - 1;
  std::array<float, 8> steps{};
  std::array<float, 8> depths{}; // of the minimum below zero
  for (std::size_t g = 0; g < 8; ++g) {
    const auto [low, high] = std::ranges::minmax(values.subspan(g * 32, 32));
    depths[g] = std::max(0.0F, -low);
    steps[g] = std::max(0.0F, high + depths[g]) / static_cast<float>(top);
  }
  const float d = rounded_f16(*std::ranges::max_element(steps) / 63.0F);
  const float dmin = rounded_f16(*std::ranges::max_element(depths) / 63.0F);
  std::array<std::uint8_t, 12> packed{};
  std::array<std::uint8_t, 256> q{};
  for (std::size_t g = 0; g < 8; ++g) {
    const auto scale = static_cast<std::uint32_t>(quantum(steps[g], d, 0, 63));
    const auto min = static_cast<std::uint32_t>(quantum(depths[g], dmin, 0, 63));
    const auto merge = [&](std::size_t at, std::uint32_t b) {
      packed[at] = static_cast<std::uint8_t>(packed[at] | b);
    };
    merge(g < 4 ? g : g + 4, g < 4 ? scale : scale & 15U);
    merge(g + 4, g < 4 ? min : (min & 15U) << 4U);
    if (g >= 4) {
      merge(g - 4, scale >> 4U << 6U);
      merge(g, min >> 4U << 6U);
    }
    for (std::size_t k = g * 32; k < g * 32 + 32; ++k) {
      const float above = values[k] + dmin * static_cast<float>(min);
      q[k] = static_cast<std::uint8_t>(quantum(above, d * static_cast<float>(scale), 0, top));
    }
  }
  out.put(model::f32_to_f16(d)).put(model::f32_to_f16(dmin)).put(packed);
  if (bits == 5) {
    for (std::size_t k = 0; k < 32; ++k) {
      std::uint32_t high = 0;
      for (std::size_t g = 0; g < 8; ++g) {
        high |= std::uint32_t{q[g * 32 + k]} >> 4U << g;
      }
      out.put(static_cast<std::uint8_t>(high));
    }
  }
  for (std::size_t g = 0; g < 8; g += 2) {
    for (std::size_t k = g * 32; k < g * 32 + 32; ++k) {
      out.put(static_cast<std::uint8_t>((q[k] & 15U) | (q[k + 32] & 15U) << 4U));
    }
  }
}

// Q6_K: sixteen groups of 16 with signed 8-bit scales.
void put_q6_k(byte_buffer& out, block_values values) {
  std::array<float, 16> steps{};
  for (std::size_t g = 0; g < 16; ++g) {
    steps[g] = extreme(values.subspan(g * 16, 16)) / -32.0F;
  }
  const float d = rounded_f16(std::fabs(extreme(steps)) / 127.0F);
  std::array<std::int8_t, 16> scales{};
  std::array<std::uint8_t, 128> low{};
  std::array<std::uint8_t, 64> high{};
  for (std::size_t k = 0; k < 256; ++k) {
    auto& scale = scales[k / 16];
    scale = static_cast<std::int8_t>(quantum(steps[k / 16], d, -127, 127));
    const auto q =
        static_cast<std::uint32_t>(quantum(values[k], d * static_cast<float>(scale), -32, 31) + 32);
    const std::size_t half = k / 128;
    const std::size_t j = k % 128 / 32;
    auto& low_byte = low[half * 64 + j % 2 * 32 + k % 32];
    auto& high_byte = high[half * 32 + k % 32];
    low_byte = static_cast<std::uint8_t>(low_byte | (q & 15U) << (j / 2 * 4));
    high_byte = static_cast<std::uint8_t>(high_byte | q >> 4U << (2 * j));
  }
  out.put(low).put(high).put(scales).put(model::f32_to_f16(d));
}

void put_block(byte_buffer& out, model::tensor_type type, block_values values) {
  using enum model::tensor_type;
  switch (type) {
  case f32:
    out.put(values[0]);
    return;
  case f16:
    out.put(model::f32_to_f16(values[0]));
    return;
  case bf16:
    out.put(model::f32_to_bf16(values[0]));
    return;
  case q4_0:
    put_symmetric(out, values, 4);
    return;
  case q5_0:
    put_symmetric(out, values, 5);
    return;
  case q4_1:
    put_affine(out, values, 4);
    return;
  case q5_1:
    put_affine(out, values, 5);
    return;
  case q8_0:
    put_q8_0(out, values);
    return;
  case q4_k:
    put_k_affine(out, values, 4);
    return;
  case q5_k:
    put_k_affine(out, values, 5);
    return;
  case q6_k:
    put_q6_k(out, values);
    return;
  default:
    break;
  }
  ENSURE(put_block_codes(out, type, values), "no encoder for {}",
         model::tensor_type_traits(type).name);
}

} // namespace

std::vector<std::byte> quantize(model::tensor_type type, std::span<const float> values) {
  const std::size_t block = model::tensor_type_traits(type).block_elements;
  ENSURE(values.size() % block == 0, "{} values are not whole blocks of {}", values.size(), block);
  byte_buffer out;
  for (std::size_t k = 0; k < values.size(); k += block) {
    put_block(out, type, values.subspan(k, block));
  }
  return out.bytes();
}

} // namespace baton::testing
