// Steps and their multiples, for the plain encoders. Private to quantize*.cpp.
#pragma once

#include "tests/support/gguf_writer.hpp"

#include <algorithm>
#include <cmath>

namespace baton::testing {

using block_values = std::span<const float>;

inline float rounded_f16(float value) {
  return model::f16_to_f32(model::f32_to_f16(value));
}

// The quantum nearest to value / step in [low, high]; 0 (clamped) where the step is zero.
inline std::int32_t quantum(float value, float step, std::int32_t low, std::int32_t high) {
  const float q = step == 0.0F ? 0.0F : std::nearbyint(value / step);
  return static_cast<std::int32_t>(
      std::clamp(q, static_cast<float>(low), static_cast<float>(high)));
}

// The value of greatest magnitude, with its sign.
inline float extreme(block_values values) {
  return *std::ranges::max_element(values, {}, [](float x) { return std::fabs(x); });
}

// Encodes one block if the type is one of block_codes.hpp; false: it is another one.
bool put_block_codes(byte_buffer& out, model::tensor_type type, block_values values);
// Its part for the types of code_grids.hpp.
bool put_grid_codes(byte_buffer& out, model::tensor_type type, block_values values);

} // namespace baton::testing
