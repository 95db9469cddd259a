// One quantised activation row: a record per block of 32 values, so that a kernel needs a single
// pointer per row. A row is quantised once per matrix input and serves every weight format.
//
// 8 bits: x = scale * low, |low| <= 127. 16 bits: x = scale * (255 * high + low), both digits in
// [-127, 127]: an integer dot product of 16-bit activations is then two of 8-bit ones. The integer
// terms are initial values of the accumulator that undo the offset of the stored codes exactly.
#pragma once

#include <cstddef>
#include <cstdint>

namespace baton::cpu {

struct activation_block {
  std::int8_t low[32];
  float scale;
  float scaled_sum;              // scale * sum of the quantised values: for formats with a min
  std::int32_t minus_8_sum;      // zero point of nibbles
  std::int32_t minus_128_sum;    // offset of bytes
  std::int32_t minus_128_sum_lo; // the same for k < 16 and k >= 16 alone
  std::int32_t minus_128_sum_hi;
  std::int32_t unused[2];
};
static_assert(sizeof(activation_block) == 64);

struct activation_block_wide {
  activation_block narrow; // its sums are those of the whole 16-bit values
  std::int8_t high[32];
};
static_assert(sizeof(activation_block_wide) == 96);

inline constexpr int activation_digit_max = 127;
inline constexpr int activation_digit_base = 255;
inline constexpr int activation_wide_max =
    activation_digit_base * activation_digit_max + activation_digit_max;

enum class activation_width : std::uint8_t { bits8 = 0, bits16 = 1 };

constexpr std::size_t activation_block_bytes(activation_width width) {
  return width == activation_width::bits8 ? sizeof(activation_block)
                                          : sizeof(activation_block_wide);
}

} // namespace baton::cpu
