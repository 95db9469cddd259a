// Encoders of the types that block_codes.hpp reads: every group takes the nearest numbers of its
// own scale.
#include "runtime/model/tensors/code_tables.hpp"
#include "tests/support/quantize_steps.hpp"

#include <array>

namespace baton::testing {
namespace {

std::uint32_t nearest(const std::int8_t (&numbers)[16], float value, float step) {
  const float wanted = step == 0.0F ? 0.0F : value / step;
  const auto* best = std::ranges::min_element(
      numbers, {}, [&](std::int8_t number) { return std::fabs(wanted - number); });
  return static_cast<std::uint32_t>(best - numbers);
}

void put_nearest(byte_buffer& out, const std::int8_t (&numbers)[16], block_values values,
                 float step) {
  for (std::size_t k = 0; k < 16; ++k)
    out.put(static_cast<std::uint8_t>(nearest(numbers, values[k], step) |
                                      nearest(numbers, values[k + 16], step) << 4U));
}

void put_iq4_nl(byte_buffer& out, block_values values) {
  const float d = rounded_f16(extreme(values) / -127.0F);
  out.put(model::f32_to_f16(d));
  put_nearest(out, model::iq4_numbers, values, d);
}

// Signed steps of `Groups` groups, the largest of which is -32 or 31 of the block's.
template <std::size_t Groups>
struct signed_steps {
  float d = 0;
  std::array<std::int32_t, Groups> scales{};

  signed_steps(block_values values, float lowest) {
    const auto step = [&](std::size_t g) {
      return extreme(values.subspan(g * 256 / Groups, 256 / Groups)) / lowest;
    };
    for (std::size_t g = 0; g < Groups; ++g)
      d = std::max(d, std::fabs(step(g)) / 31.0F);
    d = rounded_f16(d);
    for (std::size_t g = 0; g < Groups; ++g)
      scales[g] = quantum(step(g), d, -32, 31);
  }
  float of(std::size_t g) const { return d * static_cast<float>(scales[g]); }
};

void put_iq4_xs(byte_buffer& out, block_values values) {
  const signed_steps<8> steps(values, -127.0F);
  std::uint16_t high = 0;
  std::array<std::uint8_t, 4> low{};
  for (std::size_t g = 0; g < 8; ++g) {
    const auto scale = static_cast<std::uint32_t>(steps.scales[g] + 32);
    low[g / 2] = static_cast<std::uint8_t>(low[g / 2] | (scale & 15U) << (g % 2 * 4));
    high = static_cast<std::uint16_t>(high | scale >> 4U << (2 * g));
  }
  out.put(model::f32_to_f16(steps.d)).put(high).put(low);
  for (std::size_t g = 0; g < 8; ++g)
    put_nearest(out, model::iq4_numbers, values.subspan(g * 32, 32), steps.of(g));
}

void put_mxfp4(byte_buffer& out, block_values values) {
  const float most = std::fabs(extreme(values));
  const int power = most > 0 ? static_cast<int>(std::ceil(std::log2(most / 6.0F))) : -127;
  out.put(static_cast<std::uint8_t>(power + 127));
  put_nearest(out, model::e2m1_numbers, values, std::ldexp(0.5F, power));
}

// Two bits of each of 256 elements, as Q2_K, Q3_K and TQ2_0 have them.
std::array<std::uint8_t, 64> pairs_of(const std::array<std::uint8_t, 256>& q) {
  std::array<std::uint8_t, 64> pairs{};
  for (std::size_t k = 0; k < 256; ++k) {
    auto& byte = pairs[k / 128 * 32 + k % 32];
    byte = static_cast<std::uint8_t>(byte | (q[k] & 3U) << (k % 128 / 32 * 2));
  }
  return pairs;
}

void put_q2_k(byte_buffer& out, block_values values) {
  std::array<float, 16> steps{}, depths{};
  for (std::size_t g = 0; g < 16; ++g) {
    const auto [low, high] = std::ranges::minmax(values.subspan(g * 16, 16));
    depths[g] = std::max(0.0F, -low);
    steps[g] = std::max(0.0F, high + depths[g]) / 3.0F;
  }
  const float d = rounded_f16(*std::ranges::max_element(steps) / 15.0F);
  const float dmin = rounded_f16(*std::ranges::max_element(depths) / 15.0F);
  std::array<std::uint8_t, 256> q{};
  for (std::size_t g = 0; g < 16; ++g) {
    const auto scale = quantum(steps[g], d, 0, 15), min = quantum(depths[g], dmin, 0, 15);
    out.put(static_cast<std::uint8_t>(scale | min << 4));
    for (std::size_t k = g * 16; k < g * 16 + 16; ++k)
      q[k] = static_cast<std::uint8_t>(
          quantum(values[k] + dmin * static_cast<float>(min), d * static_cast<float>(scale), 0, 3));
  }
  out.put(pairs_of(q)).put(model::f32_to_f16(d)).put(model::f32_to_f16(dmin));
}

void put_q3_k(byte_buffer& out, block_values values) {
  const signed_steps<16> steps(values, -4.0F);
  std::array<std::uint8_t, 32> third{};
  std::array<std::uint8_t, 256> q{};
  std::array<std::uint8_t, 12> scales{};
  for (std::size_t g = 0; g < 16; ++g) {
    const auto scale = static_cast<std::uint32_t>(steps.scales[g] + 32);
    auto &low = scales[g % 8], &high = scales[8 + g % 4];
    low = static_cast<std::uint8_t>(low | (scale & 15U) << (g / 8 * 4));
    high = static_cast<std::uint8_t>(high | scale >> 4U << (g / 4 * 2));
  }
  for (std::size_t k = 0; k < 256; ++k) {
    q[k] = static_cast<std::uint8_t>(quantum(values[k], steps.of(k / 16), -4, 3) + 4);
    third[k % 32] = static_cast<std::uint8_t>(third[k % 32] | q[k] >> 2U << (k / 32));
  }
  out.put(third).put(pairs_of(q)).put(scales).put(model::f32_to_f16(steps.d));
}

std::array<std::uint8_t, 256> ternary(block_values values, float d) {
  std::array<std::uint8_t, 256> q{};
  for (std::size_t k = 0; k < 256; ++k)
    q[k] = static_cast<std::uint8_t>(quantum(values[k], d, -1, 1) + 1);
  return q;
}

void put_tq2_0(byte_buffer& out, block_values values) {
  const float d = rounded_f16(std::fabs(extreme(values)));
  out.put(pairs_of(ternary(values, d))).put(model::f32_to_f16(d));
}

void put_tq1_0(byte_buffer& out, block_values values) {
  const float d = rounded_f16(std::fabs(extreme(values)));
  const auto q = ternary(values, d);
  const auto put_run = [&](std::size_t first, std::size_t bytes, std::size_t digits) {
    for (std::size_t at = first; at < first + bytes; ++at) {
      std::uint32_t number = 0;
      for (std::size_t n = 0; n < 5; ++n)
        number = number * 3 + (n < digits ? q[at + n * bytes] : 0U);
      out.put(static_cast<std::uint8_t>((number * 256 + 242) / 243)); // the fraction, rounded up
    }
  };
  put_run(0, 32, 5);
  put_run(160, 16, 5);
  put_run(240, 4, 4);
  out.put(model::f32_to_f16(d));
}

} // namespace

bool put_block_codes(byte_buffer& out, model::tensor_type type, block_values values) {
  using enum model::tensor_type;
  switch (type) {
  case iq4_nl:
    put_iq4_nl(out, values);
    return true;
  case iq4_xs:
    put_iq4_xs(out, values);
    return true;
  case mxfp4:
    put_mxfp4(out, values);
    return true;
  case q2_k:
    put_q2_k(out, values);
    return true;
  case q3_k:
    put_q3_k(out, values);
    return true;
  case tq1_0:
    put_tq1_0(out, values);
    return true;
  case tq2_0:
    put_tq2_0(out, values);
    return true;
  default:
    return put_grid_codes(out, type, values);
  }
}

} // namespace baton::testing
