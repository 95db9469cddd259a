#include "runtime/gpu/device/packed_format.hpp"

#include <algorithm>

namespace baton::gpu {
namespace {

constexpr std::uint32_t int4_max = 15;

// The smallest power of two that scales a number up to `largest` down to e4m3_max; 1 if all are 0.
float fp8_scale(float largest) {
  if (largest == 0)
    return 1;
  int exponent = 0;
  std::frexp(largest / e4m3_max, &exponent); // in [2^(exponent - 1), 2^exponent)
  const float half = std::ldexp(1.0F, exponent - 1);
  const float scale = half * e4m3_max >= largest ? half : 2 * half;
  return scale > 0 ? scale : 0x1p-126F; // all denormal: smaller values become 0
}

bool pack_fp8(const float* weights, std::uint64_t columns, std::byte* values, std::byte* scales) {
  float largest = 0;
  bool is_finite = true;
  for (std::uint64_t i = 0; i < columns; ++i) {
    is_finite = is_finite && std::isfinite(weights[i]);
    largest = std::max(largest, std::abs(weights[i]));
  }
  const float scale = fp8_scale(largest), inverse = 1 / scale;
  for (std::uint64_t i = 0; is_finite && i < columns; ++i) {
    e4m3 packed{};
    narrow(weights[i] * inverse, packed);
    values[i] = std::byte{packed.bits};
  }
  std::memcpy(scales, &scale, sizeof scale);
  return is_finite;
}

std::uint32_t nearest(float x) {
  const float most = int4_max;
  return x > 0 ? static_cast<std::uint32_t>(std::min(x + 0.5F, most)) : 0;
}

bool pack_int4_group(const float* weights, std::uint32_t group, std::byte* values,
                     int4_group& own) {
  float least = weights[0], most = weights[0];
  bool is_finite = true;
  for (std::uint32_t i = 0; i < group; ++i) {
    is_finite = is_finite && std::isfinite(weights[i]);
    least = std::min(least, weights[i]);
    most = std::max(most, weights[i]);
  }
  // Rounds minimum and step first, because the device computes with the rounded values.
  narrow(least, own.minimum);
  const float minimum = widen(own.minimum);
  narrow((most - minimum) / static_cast<float>(int4_max), own.step);
  const float step = widen(own.step);
  is_finite = is_finite && std::isfinite(minimum) && std::isfinite(step);
  if (!is_finite)
    return false;
  for (std::uint32_t i = 0; i < group; i += 2) {
    const std::uint32_t low = step > 0 ? nearest((weights[i] - minimum) / step) : 0,
                        high = step > 0 ? nearest((weights[i + 1] - minimum) / step) : 0;
    values[i / 2] = static_cast<std::byte>(low | high << 4);
  }
  return true;
}

} // namespace

const char* quantization_name(plugin::quantization form) {
  return form == plugin::quantization::fp8    ? "fp8"
         : form == plugin::quantization::int4 ? "int4"
                                              : "none";
}

packed_extent packed_extent_of(plugin::quantization form, std::uint32_t group,
                               std::uint64_t columns) {
  if (form == plugin::quantization::fp8)
    return {columns, sizeof(float)};
  return {columns / 2, columns / group * sizeof(int4_group)};
}

std::uint32_t packed_columns_step(plugin::quantization form, std::uint32_t group) {
  return form == plugin::quantization::fp8 ? 16 : group;
}

std::uint32_t tile_columns_step(plugin::quantization form) {
  return form == plugin::quantization::fp8 ? 64 : 128; // runs of 16 bytes for four lanes
}

bool pack_output(plugin::quantization form, std::uint32_t group, const float* weights,
                 std::uint64_t columns, std::byte* values, std::byte* scales) {
  if (form == plugin::quantization::fp8)
    return pack_fp8(weights, columns, values, scales);
  bool is_packed = true;
  for (std::uint64_t at = 0; at < columns; at += group) {
    int4_group own{};
    is_packed = is_packed && pack_int4_group(weights + at, group, values + at / 2, own);
    std::memcpy(scales + at / group * sizeof own, &own, sizeof own);
  }
  return is_packed;
}

} // namespace baton::gpu
