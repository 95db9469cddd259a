// Blocks of weights as small whole numbers with scales: what the scalar decoder multiplies and what
// an engine packs. For the types whose blocks have no simpler form in dequantize.cpp.
#pragma once

#include "runtime/model/tensors/tensor.hpp"

#include <array>

namespace baton::model {

inline constexpr std::size_t codes_per_group = 32;

// Element k is scale[k / 16] * codes[k] - min[k / 16]; the product is exact in float32.
struct block_codes {
  std::array<std::int8_t, codes_per_group> codes;
  std::array<float, 2> scale;
  std::array<float, 2> min; // positive zero where the type has none
};

// Reads elements 32 * group to 32 * group + 31 of a block. Requires: group is in the block.
using code_reader = block_codes (*)(const std::byte* block, std::size_t group) noexcept;

// Null for types that dequantize.cpp decodes itself, or that are not supported.
code_reader code_reader_of(tensor_type type) noexcept;
// Its part for the types whose codes are points of a grid.
code_reader grid_code_reader_of(tensor_type type) noexcept;

} // namespace baton::model
