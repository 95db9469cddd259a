// One quantised activation row: a record per block of 32 values, so that a kernel needs a single
// pointer per row. A row is quantised once per matrix input and serves every weight format.
//
// x = scale * value, |value| <= 127 in 8 bits, <= 32767 in 16. The integer terms initialise the
// accumulator and cancel the offset of the stored codes exactly.
#pragma once

#include <cstddef>
#include <cstdint>

namespace baton::cpu {

struct activation_terms {
  float scale;
  float scaled_sum;              // scale * sum of the quantised values, for formats with a min
  std::int32_t minus_8_sum;      // zero point of nibbles
  std::int32_t minus_128_sum;    // offset of bytes
  std::int32_t minus_128_sum_lo; // the same for k < 16 and k >= 16 separately
  std::int32_t minus_128_sum_hi;
  float scaled_sum_lo; // scaled_sum of k < 16 and k >= 16, for formats with a min for each
  float scaled_sum_hi;
};

enum class activation_width : std::uint8_t { bits8 = 0, bits16 = 1 };

template <activation_width Width>
struct activation_block;

template <>
struct activation_block<activation_width::bits8> {
  static constexpr int most = 127;
  std::int8_t values[32];
  activation_terms terms;
};

// In every group of four values the middle two are swapped. A product takes two values at a time,
// and equal positions in the two halves of 4 code bytes hold the codes of k and k + 2.
template <>
struct activation_block<activation_width::bits16> {
  static constexpr int most = 32767;
  std::int16_t values[32];
  activation_terms terms;
};
static_assert(sizeof(activation_block<activation_width::bits8>) == 64);
static_assert(sizeof(activation_block<activation_width::bits16>) == 96);

// Index of value k within a block. Always inlined: files for several ISAs share this header.
[[gnu::always_inline]] constexpr std::size_t activation_index(activation_width width,
                                                              std::size_t k) {
  constexpr std::size_t swapped[] = {0, 2, 1, 3};
  return width == activation_width::bits8 ? k : k / 4 * 4 + swapped[k % 4];
}

constexpr std::size_t activation_block_bytes(activation_width width) {
  return width == activation_width::bits8 ? sizeof(activation_block<activation_width::bits8>)
                                          : sizeof(activation_block<activation_width::bits16>);
}

} // namespace baton::cpu
