// Encoders of the IQ1, IQ2 and IQ3 types: a scale from the largest number of each group, then the
// nearest point of the grid.
#include "runtime/model/tensors/code_grids.hpp"
#include "tests/support/quantize_steps.hpp"

#include <array>
#include <bit>
#include <limits>

namespace baton::testing {
namespace {

using enum model::tensor_type;

struct nearest_point {
  std::uint32_t index = 0;
  float error = std::numeric_limits<float>::max();
};

// The point nearest to `values` / `step`, each number of which is moved by `shift`.
template <std::size_t Points, std::size_t Size>
nearest_point nearest_of(const model::code_grid<Points, Size>& grid, const float* values,
                         float step, float shift = 0) {
  nearest_point best;
  for (std::uint32_t index = 0; step != 0.0F && index < Points; ++index) {
    float error = 0;
    for (std::size_t k = 0; k < Size && error < best.error; ++k) {
      const float off = values[k] / step - static_cast<float>(grid[index][k]) - shift;
      error += off * off;
    }
    if (error < best.error)
      best = {index, error};
  }
  return best;
}

struct signed_values {
  std::array<float, 8> magnitudes{};
  std::uint32_t signs = 0;

  // With an even number of signs, that of the smallest value may be wrong.
  signed_values(block_values values, bool is_even) {
    for (std::size_t k = 0; k < 8; ++k) {
      magnitudes[k] = std::fabs(values[k]);
      signs |= std::uint32_t{std::signbit(values[k])} << k;
    }
    if (is_even && std::popcount(signs) % 2 == 1)
      signs ^= 1U << (std::ranges::min_element(magnitudes) - magnitudes.begin());
  }
};

// A block's scale and those of its groups: step = d * (first + scale * each), scale in [0, most].
struct grid_steps {
  float d = 0, first, each;
  std::vector<std::uint32_t> scales;

  grid_steps(block_values values, std::size_t groups, float largest, float first_of, float each_of,
             std::uint32_t most)
      : first(first_of), each(each_of) {
    const float all = first + each * static_cast<float>(most);
    d = rounded_f16(std::fabs(extreme(values)) / largest / all);
    for (std::size_t g = 0; g < groups; ++g) {
      const float step =
          std::fabs(extreme(values.subspan(g * 256 / groups, 256 / groups))) / largest;
      scales.push_back(d == 0.0F
                           ? 0U
                           : static_cast<std::uint32_t>(quantum(step / d - first, each, 0,
                                                                static_cast<std::int32_t>(most))));
    }
  }
  float of(std::size_t g) const { return d * (first + each * static_cast<float>(scales[g])); }
};

std::uint8_t pair_of(const grid_steps& steps, std::size_t g) {
  return static_cast<std::uint8_t>(steps.scales[g] | steps.scales[g + 1] << 4U);
}

void put_iq2_xxs(byte_buffer& out, block_values values) {
  const grid_steps steps(values, 8, 43, 0.125F, 0.25F, 15);
  out.put(model::f32_to_f16(steps.d));
  for (std::size_t g = 0; g < 8; ++g) {
    std::uint32_t both = steps.scales[g] << 28U;
    for (std::size_t j = 0; j < 4; ++j) {
      const signed_values own(values.subspan(g * 32 + j * 8, 8), true);
      out.put(static_cast<std::uint8_t>(
          nearest_of(model::iq2_xxs_grid, own.magnitudes.data(), steps.of(g)).index));
      both |= (own.signs & 127U) << (7 * j);
    }
    out.put(both);
  }
}

void put_iq2_xs(byte_buffer& out, block_values values) {
  const grid_steps steps(values, 16, 43, 0.125F, 0.25F, 15);
  out.put(model::f32_to_f16(steps.d));
  for (std::size_t i = 0; i < 32; ++i) {
    const signed_values own(values.subspan(i * 8, 8), true);
    const auto point = nearest_of(model::iq2_xs_grid, own.magnitudes.data(), steps.of(i / 2));
    out.put(static_cast<std::uint16_t>(point.index | (own.signs & 127U) << 9U));
  }
  for (std::size_t g = 0; g < 16; g += 2)
    out.put(pair_of(steps, g));
}

void put_iq2_s(byte_buffer& out, block_values values) {
  const grid_steps steps(values, 16, 43, 0.125F, 0.25F, 15);
  std::array<std::uint8_t, 32> low{}, signs{};
  std::array<std::uint8_t, 8> upper{};
  for (std::size_t i = 0; i < 32; ++i) {
    const signed_values own(values.subspan(i * 8, 8), false);
    const auto point = nearest_of(model::iq2_s_grid, own.magnitudes.data(), steps.of(i / 2));
    low[i] = static_cast<std::uint8_t>(point.index);
    signs[i] = static_cast<std::uint8_t>(own.signs);
    upper[i / 4] = static_cast<std::uint8_t>(upper[i / 4] | point.index >> 8U << (2 * (i % 4)));
  }
  out.put(model::f32_to_f16(steps.d)).put(low).put(signs).put(upper);
  for (std::size_t g = 0; g < 16; g += 2)
    out.put(pair_of(steps, g));
}

void put_iq3_xxs(byte_buffer& out, block_values values) {
  const grid_steps steps(values, 8, 62, 0.25F, 0.5F, 15);
  std::array<std::uint8_t, 64> indexes{};
  std::array<std::uint32_t, 8> both{};
  for (std::size_t i = 0; i < 32; ++i) {
    const signed_values own(values.subspan(i * 8, 8), true);
    for (std::size_t half = 0; half < 2; ++half)
      indexes[2 * i + half] = static_cast<std::uint8_t>(
          nearest_of(model::iq3_xxs_grid, own.magnitudes.data() + 4 * half, steps.of(i / 4)).index);
    both[i / 4] |= (own.signs & 127U) << (7 * (i % 4)) | steps.scales[i / 4] << 28U;
  }
  out.put(model::f32_to_f16(steps.d)).put(indexes).put(both);
}

void put_iq3_s(byte_buffer& out, block_values values) {
  const grid_steps steps(values, 8, 15, 1, 2, 15);
  std::array<std::uint8_t, 64> low{};
  std::array<std::uint8_t, 8> upper{};
  std::array<std::uint8_t, 32> signs{};
  for (std::size_t i = 0; i < 64; ++i) {
    const signed_values own(values.subspan(i / 2 * 8, 8), false);
    const auto point =
        nearest_of(model::iq3_s_grid, own.magnitudes.data() + i % 2 * 4, steps.of(i / 8));
    low[i] = static_cast<std::uint8_t>(point.index);
    upper[i / 8] = static_cast<std::uint8_t>(upper[i / 8] | point.index >> 8U << (i % 8));
    signs[i / 2] = static_cast<std::uint8_t>(own.signs);
  }
  out.put(model::f32_to_f16(steps.d)).put(low).put(upper).put(signs);
  for (std::size_t g = 0; g < 8; g += 2)
    out.put(pair_of(steps, g));
}

// Points of IQ1 are moved by an eighth.
nearest_point nearest_iq1(const float* values, float step, bool is_down) {
  return nearest_of(model::iq1_grid, values, step, is_down ? -0.125F : 0.125F);
}

void put_iq1_s(byte_buffer& out, block_values values) {
  const grid_steps steps(values, 8, 1.125F, 1, 2, 7);
  std::array<std::uint8_t, 32> low{};
  std::array<std::uint16_t, 8> both{};
  for (std::size_t g = 0; g < 8; ++g) {
    std::array<nearest_point, 4> up, down;
    float gain = 0; // of moving the points down
    for (std::size_t j = 0; j < 4; ++j) {
      const float* own = values.data() + g * 32 + j * 8;
      up[j] = nearest_iq1(own, steps.of(g), false);
      down[j] = nearest_iq1(own, steps.of(g), true);
      gain += up[j].error - down[j].error;
    }
    const auto& points = gain > 0 ? down : up;
    std::uint32_t word = steps.scales[g] << 12U | (gain > 0 ? 0x8000U : 0U);
    for (std::size_t j = 0; j < 4; ++j) {
      low[g * 4 + j] = static_cast<std::uint8_t>(points[j].index);
      word |= points[j].index >> 8U << (3 * j);
    }
    both[g] = static_cast<std::uint16_t>(word);
  }
  out.put(model::f32_to_f16(steps.d)).put(low).put(both);
}

void put_iq1_m(byte_buffer& out, block_values values) {
  const grid_steps steps(values, 16, 1.125F, 1, 2, 7);
  std::array<std::uint8_t, 32> low{};
  std::array<std::uint8_t, 16> both{};
  for (std::size_t i = 0; i < 32; ++i) {
    const auto up = nearest_iq1(values.data() + i * 8, steps.of(i / 2), false);
    const auto down = nearest_iq1(values.data() + i * 8, steps.of(i / 2), true);
    const bool is_down = down.error < up.error;
    const auto index = is_down ? down.index : up.index;
    low[i] = static_cast<std::uint8_t>(index);
    both[i / 2] = static_cast<std::uint8_t>(both[i / 2] | (index >> 8U | (is_down ? 8U : 0U))
                                                              << (4 * (i % 2)));
  }
  const std::uint32_t d = model::f32_to_f16(steps.d);
  out.put(low).put(both);
  for (std::size_t i = 0; i < 4; ++i) {
    std::uint32_t word = (d >> (4 * i) & 15U) << 12U;
    for (std::size_t k = 0; k < 4; ++k)
      word |= steps.scales[4 * i + k] << (3 * k);
    out.put(static_cast<std::uint16_t>(word));
  }
}

} // namespace

bool put_grid_codes(byte_buffer& out, model::tensor_type type, block_values values) {
  using encoder = void (*)(byte_buffer&, block_values);
  constexpr std::pair<model::tensor_type, encoder> encoders[] = {
      {iq2_xxs, put_iq2_xxs}, {iq2_xs, put_iq2_xs}, {iq2_s, put_iq2_s}, {iq3_xxs, put_iq3_xxs},
      {iq3_s, put_iq3_s},     {iq1_s, put_iq1_s},   {iq1_m, put_iq1_m}};
  for (const auto& [of, put] : encoders)
    if (of == type) {
      put(out, values);
      return true;
    }
  return false;
}

} // namespace baton::testing
