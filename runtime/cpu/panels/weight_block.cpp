// Decodes the block layouts of the GGUF specification (block_q* in ggml) into weight_block.
// Equivalent to model::dequantize_row; tests compare the two bit by bit.
#include "runtime/cpu/panels/weight_block.hpp"

#include "runtime/model/tensors/block_codes.hpp"
#include "runtime/model/tensors/code_tables.hpp"
#include "schema/ensure.hpp"

namespace baton::cpu {
namespace {

using model::tensor_type;

std::uint32_t u8(const std::byte* at) {
  return std::to_integer<std::uint32_t>(*at);
}
float f16(const std::byte* at) {
  return model::f16_to_f32(static_cast<std::uint16_t>(u8(at) | u8(at + 1) << 8U));
}
std::int8_t code(std::uint32_t unsigned_code, int offset) {
  return static_cast<std::int8_t>(static_cast<int>(unsigned_code) - offset);
}
// 32 nibbles in 16 bytes: the low halves come first.
std::array<std::uint8_t, 32> nibbles(const std::byte* quants) {
  std::array<std::uint8_t, 32> all;
  for (std::size_t i = 0; i < 16; ++i) {
    all[i] = static_cast<std::uint8_t>(u8(quants + i) & 15U);
    all[i + 16] = static_cast<std::uint8_t>(u8(quants + i) >> 4U);
  }
  return all;
}

template <class Code>
weight_block fill(float scale, float min, Code code_of) {
  weight_block block;
  block.scale = {scale, scale};
  block.min = {min, min};
  for (std::size_t k = 0; k < block_columns; ++k)
    block.codes[k] = code_of(k);
  return block;
}

// Q4_0 [d][nibbles], Q4_1 [d][m][nibbles]
weight_block read_q4(const std::byte* at, bool has_min) {
  const auto quants = nibbles(at + (has_min ? 4 : 2));
  return fill(f16(at), has_min ? f16(at + 2) : 0.0F,
              [&](std::size_t k) { return code(quants[k], 0); });
}

// Q5_0 [d][fifth bits][nibbles], Q5_1 [d][m][fifth bits][nibbles]
weight_block read_q5(const std::byte* at, bool has_min) {
  const std::byte* bits = at + (has_min ? 4 : 2);
  const auto quants = nibbles(bits + 4);
  return fill(f16(at), has_min ? f16(at + 2) : 0.0F, [&](std::size_t k) {
    const std::uint32_t fifth = u8(bits + k / 8) >> (k % 8) & 1U;
    return code(quants[k] | fifth << 4U, has_min ? 0 : 16);
  });
}

weight_block read_q8_0(const std::byte* at) {
  return fill(f16(at), 0.0F,
              [&](std::size_t k) { return static_cast<std::int8_t>(u8(at + 2 + k)); });
}

// Six-bit scale and min of group i of 8, packed into 12 bytes (see dequantize.cpp).
std::array<float, 2> packed_scale(const std::byte* scales, std::size_t i) {
  if (i < 4)
    return {static_cast<float>(u8(scales + i) & 63U), static_cast<float>(u8(scales + i + 4) & 63U)};
  const std::uint32_t low = u8(scales + i + 4);
  return {static_cast<float>((low & 15U) | (u8(scales + i - 4) >> 6U) << 4U),
          static_cast<float>(low >> 4U | (u8(scales + i) >> 6U) << 4U)};
}

// Q4_K and Q5_K super-blocks: [d][dmin][scales](Q5_K: [fifth bits])[nibbles], groups of 32.
weight_block read_k45(const std::byte* at, std::size_t group, bool has_fifth) {
  const auto [scale, min] = packed_scale(at + 4, group);
  const std::byte* bits = at + 16;
  const std::byte* quants = at + (has_fifth ? 48 : 16) + group / 2 * 32;
  return fill(f16(at) * scale, -(f16(at + 2) * min), [&](std::size_t k) {
    const std::uint32_t low = u8(quants + k) >> (group % 2 * 4) & 15U;
    const std::uint32_t fifth = has_fifth ? u8(bits + k) >> group & 1U : 0U;
    return code(low | fifth << 4U, 0);
  });
}

// Sixteen numbers, and the index of each.
struct numbers_and_indexes {
  code_table table{};
  std::array<std::int8_t, 256> index_of{}; // by number + 128

  constexpr explicit numbers_and_indexes(const std::int8_t (&numbers)[16]) {
    for (std::size_t i = 16; i-- > 0;) { // of equal numbers the first
      table.codes[i] = static_cast<std::uint8_t>(numbers[i] + 128);
      index_of[table.codes[i]] = static_cast<std::int8_t>(i);
    }
  }
};
constexpr numbers_and_indexes iq4(model::iq4_numbers), e2m1(model::e2m1_numbers),
    iq1_iq2(model::iq1_iq2_numbers), iq3_xxs(model::iq3_xxs_numbers), iq3_s(model::iq3_s_numbers);

const numbers_and_indexes* numbers_of(tensor_type type) {
  switch (type) {
  case tensor_type::iq4_nl:
  case tensor_type::iq4_xs:
    return &iq4;
  case tensor_type::mxfp4:
    return &e2m1;
  case tensor_type::iq1_s:
  case tensor_type::iq1_m:
  case tensor_type::iq2_xxs:
  case tensor_type::iq2_xs:
  case tensor_type::iq2_s:
    return &iq1_iq2;
  case tensor_type::iq3_xxs:
    return &iq3_xxs;
  case tensor_type::iq3_s:
    return &iq3_s;
  default:
    return nullptr;
  }
}

// Reads whole numbers with scales. A nibble format stores them above a zero point or by a table.
weight_block read_codes(tensor_type type, model::code_reader read, const std::byte* at,
                        std::size_t group) {
  static_assert(model::codes_per_group == block_columns);
  const auto [numbers, scale, min] = read(at, group);
  weight_block block{.codes = numbers, .scale = scale, .min = {-min[0], -min[1]}};
  const auto* of_table = numbers_of(type);
  const auto zero_point = layout_of(*panel_format_of(type)).has_zero_point ? 8 : 0;
  for (auto& stored : block.codes)
    stored = of_table != nullptr ? of_table->index_of[static_cast<std::size_t>(stored + 128)]
                                 : static_cast<std::int8_t>(stored + zero_point);
  return block;
}

// Q6_K: [low nibbles][upper bit pairs][scales of 16][d], two halves of 128.
weight_block read_q6_k(const std::byte* at, std::size_t group) {
  const std::size_t half = group / 4, j = group % 4;
  const std::byte* low = at + half * 64 + j % 2 * 32;
  const std::byte* high = at + 128 + half * 32;
  const std::byte* scales = at + 192 + group * 2;
  weight_block block = fill(0.0F, 0.0F, [&](std::size_t k) {
    return code((u8(low + k) >> (j / 2 * 4) & 15U) | (u8(high + k) >> (2 * j) & 3U) << 4U, 32);
  });
  for (std::size_t i = 0; i < 2; ++i)
    block.scale[i] = f16(at + 208) * static_cast<float>(static_cast<std::int8_t>(u8(scales + i)));
  return block;
}

} // namespace

std::optional<panel_format> panel_format_of(tensor_type type) noexcept {
  switch (type) {
  case tensor_type::f32:
    return panel_format::f32;
  case tensor_type::f16:
    return panel_format::f16;
  case tensor_type::bf16:
    return panel_format::bf16;
  case tensor_type::q4_0:
    return panel_format::nibble_zero_point;
  case tensor_type::q4_1:
    return panel_format::nibble_min;
  case tensor_type::q5_0:
  case tensor_type::q8_0:
    return panel_format::byte;
  case tensor_type::q5_1:
    return panel_format::byte_min;
  case tensor_type::q4_k:
    return panel_format::nibble_min_f32;
  case tensor_type::q5_k:
    return panel_format::byte_min_f32;
  case tensor_type::q6_k:
    return panel_format::byte_two_scales;
  case tensor_type::q3_k:
    return panel_format::nibble_two_scales;
  case tensor_type::q2_k:
    return panel_format::nibble_two_mins;
  case tensor_type::iq4_nl:
    return panel_format::table;
  case tensor_type::iq4_xs:
  case tensor_type::mxfp4:
  case tensor_type::iq3_xxs:
  case tensor_type::iq3_s:
  case tensor_type::iq2_xxs:
  case tensor_type::iq1_s:
    return panel_format::table_f32;
  case tensor_type::iq2_xs:
  case tensor_type::iq2_s:
  case tensor_type::iq1_m:
    return panel_format::table_two_scales;
  case tensor_type::tq1_0:
  case tensor_type::tq2_0:
    return panel_format::nibble_zero_point;
  default:
    return std::nullopt;
  }
}

double packed_growth(tensor_type type) {
  const auto format = panel_format_of(type);
  const auto& traits = model::tensor_type_traits(type);
  ENSURE(format.has_value(), "{} is not packed", traits.name);
  const double packed = static_cast<double>(layout_of(*format).record_bytes()) /
                        static_cast<double>(panel_rows * block_columns);
  return packed * traits.block_elements / traits.block_bytes;
}

const code_table* code_table_of(tensor_type type) noexcept {
  const auto* numbers = numbers_of(type);
  return numbers != nullptr ? &numbers->table : nullptr;
}

weight_block read_weight_block(tensor_type type, const std::byte* row, std::size_t index) {
  const auto& traits = model::tensor_type_traits(type);
  const std::size_t groups = traits.block_elements / block_columns;
  ENSURE(groups > 0, "{} has no blocks of 32", traits.name);
  const std::byte* at = row + index / groups * traits.block_bytes;
  if (const auto read = model::code_reader_of(type))
    return read_codes(type, read, at, index % groups);
  switch (type) {
  case tensor_type::q4_0:
  case tensor_type::q4_1:
    return read_q4(at, type == tensor_type::q4_1);
  case tensor_type::q5_0:
  case tensor_type::q5_1:
    return read_q5(at, type == tensor_type::q5_1);
  case tensor_type::q4_k:
  case tensor_type::q5_k:
    return read_k45(at, index % groups, type == tensor_type::q5_k);
  case tensor_type::q6_k:
    return read_q6_k(at, index % groups);
  default:
    ENSURE(type == tensor_type::q8_0, "{} is not read in blocks", traits.name);
    return read_q8_0(at);
  }
}

} // namespace baton::cpu
