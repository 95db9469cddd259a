#include "tests/support/gguf_writer.hpp"

#include <random>

namespace baton::testing {
namespace {

// Byte offsets of a type's float16 fields: random bytes there would be infinite or NaN too often.
std::vector<std::size_t> scales_of(model::tensor_type type) {
  using enum model::tensor_type;
  switch (type) {
  case q4_0:
  case q5_0:
  case q8_0:
  case iq4_nl:
  case iq4_xs:
  case iq2_xxs:
  case iq2_xs:
  case iq2_s:
  case iq3_xxs:
  case iq3_s:
  case iq1_s:
    return {0};
  case q4_1:
  case q5_1:
  case q4_k:
  case q5_k:
    return {0, 2};
  case q6_k:
    return {208};
  case q2_k:
    return {80, 82};
  case q3_k:
    return {108};
  case tq1_0:
    return {52};
  case tq2_0:
    return {64};
  default:
    return {};
  }
}

} // namespace

std::vector<std::byte> random_blocks(model::tensor_type type, std::size_t elements,
                                     std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto& traits = model::tensor_type_traits(type);
  const auto scale = [&] { return (static_cast<float>(random() % 2001) - 1000.0F) / 20000.0F; };
  if (traits.block_elements == 1) {
    std::vector<float> values(elements);
    for (float& x : values)
      x = 20.0F * scale();
    return quantize(type, values);
  }
  std::vector<std::byte> blocks(elements / traits.block_elements * traits.block_bytes);
  for (std::byte& each : blocks)
    each = static_cast<std::byte>(random() & 255U);
  for (std::size_t at = 0; at < blocks.size(); at += traits.block_bytes) {
    for (const auto field : scales_of(type)) {
      const std::uint16_t half = model::f32_to_f16(scale());
      std::memcpy(blocks.data() + at + field, &half, sizeof half);
    }
    if (type == model::tensor_type::mxfp4)
      blocks[at] = static_cast<std::byte>(118 + random() % 8);
    if (type == model::tensor_type::iq1_m) // the scale is in the top nibbles of four words
      for (std::size_t i = 0, half = model::f32_to_f16(scale()); i < 4; ++i) {
        auto& byte = blocks[at + 49 + 2 * i];
        byte = (byte & std::byte{15}) | static_cast<std::byte>((half >> (4 * i) & 15U) << 4U);
      }
  }
  return blocks;
}

} // namespace baton::testing
