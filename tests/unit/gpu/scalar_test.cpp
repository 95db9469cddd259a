// Goal: 16-bit numbers match runtime/model. Method: widens every 16-bit pattern; narrows floats on,
// beside and between all rounding borders.
#include "runtime/gpu/device/scalar.hpp"
#include "runtime/model/tensors/tensor.hpp"

#include <doctest/doctest.h>

#include <bit>

using namespace baton;

TEST_CASE("every number of 16 bits widens as the model's reader widens it") {
  for (std::uint32_t i = 0; i <= 0xFFFFU; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const auto same = [](float a, float b) {
      return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
             (std::isnan(a) && std::isnan(b));
    };
    REQUIRE(same(gpu::widen(gpu::f16{bits}), model::f16_to_f32(bits)));
    REQUIRE(same(gpu::widen(gpu::bf16{bits}), model::bf16_to_f32(bits)));
  }
}

TEST_CASE("floats narrow as the model's reader narrows them") {
  const auto check = [](std::uint32_t bits) {
    const auto x = std::bit_cast<float>(bits);
    gpu::f16 half{};
    gpu::bf16 brain{};
    gpu::narrow(x, half);
    gpu::narrow(x, brain);
    CAPTURE(bits);
    if (std::isnan(x)) {
      REQUIRE(std::isnan(model::f16_to_f32(half.bits)));
      REQUIRE(std::isnan(model::bf16_to_f32(brain.bits)));
      return;
    }
    REQUIRE(half.bits == model::f32_to_f16(x));
    REQUIRE(brain.bits == model::f32_to_bf16(x));
  };
  for (std::uint64_t bits = 0; bits <= UINT32_MAX; bits += 0x3F7) // a prime apart: 4 million
    check(static_cast<std::uint32_t>(bits));
  for (std::uint32_t i = 0; i <= 0xFFFFU; ++i) {
    const auto half =
        std::bit_cast<std::uint32_t>(model::f16_to_f32(static_cast<std::uint16_t>(i)));
    for (const std::uint32_t off : {0x0FFFU, 0x1000U, 0x1001U}) // halfway between two f16 values
      check(half + off);
    for (const std::uint32_t off : {0x7FFFU, 0x8000U, 0x8001U}) // and two bf16 values
      check((i << 16) + off);
  }
}
