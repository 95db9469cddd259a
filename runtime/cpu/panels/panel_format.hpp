// The layout of weights in memory. A panel is 32 output rows of a matrix; a record is one block of
// 32 inputs (k) of a panel. The records of a panel are stored in k order, so a step reads each
// matrix as one forward stream. Used by the packer and by every kernel.
//
//   Codes:  `nibble`: 4 x [2 x 64 bytes]. Group j, output o holds the codes k = 4j .. 4j+3 in the
//           low and k = 16+4j .. 16+4j+3 in the high halves of 4 bytes.
//           `byte`: 4 x [low, high][2 x 64 bytes], the same order, each code stored as value + 128.
//           In table formats the nibbles are indexes of a table of 16 numbers.
//   Scales: one per output (f16 or f32), with two scales one per 16 k.
//   Mins:   as many, added once per block (or 16 k) times the sum of the activations.
// Float panels have no blocks: [k][32 outputs]; bf16 panels hold k in pairs: [k / 2][32
// outputs][2].
#pragma once

#include <cstddef>
#include <cstdint>

namespace baton::cpu {

inline constexpr std::size_t panel_rows = 32;
inline constexpr std::size_t block_columns = 32;

enum class panel_format : std::uint8_t {
  f32,
  f16,
  bf16,
  nibble_zero_point, // Q4_0: (code - 8) * f16 scale
  nibble_min,        // Q4_1: code * f16 scale + f16 min
  byte,              // Q8_0, Q5_0: code * f16 scale
  byte_min,          // Q5_1: code * f16 scale + f16 min
  nibble_min_f32,    // Q4_K: 6-bit scale times the super-block's scale, as float32; also the min
  byte_min_f32,      // Q5_K
  byte_two_scales,   // Q6_K: a float32 scale for each half of the block
  nibble_two_scales, // Q3_K: (code - 8) * a float32 scale for each half
  nibble_two_mins,   // Q2_K: code * scale + min, both float32 for each half
  table,             // IQ4_NL: number of the nibble * f16 scale
  table_f32,         // IQ4_XS, MXFP4, IQ3, IQ2_XXS, IQ1_S: with a float32 scale
  table_two_scales,  // IQ2_XS, IQ2_S, IQ1_M: with a float32 scale for each half
};
inline constexpr std::size_t panel_format_count = 15;

// Sixteen numbers that nibbles stand for, as byte codes (number + 128). Each matrix of a table
// format has one.
struct code_table {
  std::uint8_t codes[16];
};

struct panel_layout {
  bool is_float = false;
  bool has_bytes = false;      // else nibbles
  bool has_zero_point = false; // nibbles only: 8
  bool has_min = false;
  bool has_two_scales = false;
  bool has_f16_scales = false;   // else float32
  std::size_t element_bytes = 0; // of a float panel
  bool has_table = false;        // of the numbers that nibbles stand for

  // Whether kernels multiply bytes, as stored or from a table.
  constexpr bool multiplies_bytes() const { return has_bytes || has_table; }
  constexpr std::size_t code_bytes() const {
    return is_float ? element_bytes * panel_rows * block_columns
                    : panel_rows * block_columns / (has_bytes ? 1 : 2);
  }
  constexpr std::size_t scale_bytes() const {
    return is_float ? 0 : panel_rows * (has_f16_scales ? 2 : 4);
  }
  constexpr std::size_t record_bytes() const {
    return code_bytes() + scale_bytes() * (has_two_scales ? 2 : 1) * (has_min ? 2 : 1);
  }
};

constexpr panel_layout layout_of(panel_format format) {
  switch (format) {
  case panel_format::f32:
    return {.is_float = true, .element_bytes = 4};
  case panel_format::f16:
  case panel_format::bf16:
    return {.is_float = true, .element_bytes = 2};
  case panel_format::nibble_zero_point:
    return {.has_zero_point = true, .has_f16_scales = true};
  case panel_format::nibble_min:
    return {.has_min = true, .has_f16_scales = true};
  case panel_format::byte:
    return {.has_bytes = true, .has_f16_scales = true};
  case panel_format::byte_min:
    return {.has_bytes = true, .has_min = true, .has_f16_scales = true};
  case panel_format::nibble_min_f32:
    return {.has_min = true};
  case panel_format::byte_min_f32:
    return {.has_bytes = true, .has_min = true};
  case panel_format::byte_two_scales:
    return {.has_bytes = true, .has_two_scales = true};
  case panel_format::nibble_two_scales:
    return {.has_zero_point = true, .has_two_scales = true};
  case panel_format::nibble_two_mins:
    return {.has_min = true, .has_two_scales = true};
  case panel_format::table:
    return {.has_f16_scales = true, .has_table = true};
  case panel_format::table_f32:
    return {.has_table = true};
  case panel_format::table_two_scales:
    return {.has_two_scales = true, .has_table = true};
  }
  return {};
}

} // namespace baton::cpu
