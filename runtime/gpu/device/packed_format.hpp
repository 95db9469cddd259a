// The layout of weights with fewer than 16 bits in device memory:
//
//   `fp8`   values[output][column]: e4m3; scales[output]: float, a power of two. A weight times
//           its scale is exact in every 16-bit type with the exponent.
//   `int4`  values[output][column / 2]: two per byte, the even column in the lower half;
//           scales[output][column / group]: step and minimum, weight = number * step + minimum.
//
// The host packs weights while uploading; product_bodies.hpp unpacks them.
#pragma once

#include "runtime/gpu/device/scalar.hpp"
#include "runtime/plugin/abi.hpp"

#include <cstddef>
#include <cstdint>

namespace baton::gpu {

struct int4_group {
  bf16 step, minimum;
};

// "fp8"
const char* quantization_name(plugin::quantization form);

// The bytes of an output's values, and of its scales.
struct packed_extent {
  std::uint64_t values = 0, scales = 0;
};
packed_extent packed_extent_of(plugin::quantization form, std::uint32_t group,
                               std::uint64_t columns);

// The number of columns must be a multiple of this.
std::uint32_t packed_columns_step(plugin::quantization form, std::uint32_t group);

// The number of columns must be a multiple of this for kernel_table::multiply_tiles.
std::uint32_t tile_columns_step(plugin::quantization form);

// Packs one output. False: a weight is not finite, and the output is undefined.
// Requires: `columns` is a multiple of packed_columns_step, `scales` is aligned to 4 bytes.
bool pack_output(plugin::quantization form, std::uint32_t group, const float* weights,
                 std::uint64_t columns, std::byte* values, std::byte* scales);

} // namespace baton::gpu
