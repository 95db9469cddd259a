// Goal: the operations on single rows follow their definitions and give the same bits on every
// instruction set. Method: random and awkward values against double arithmetic, and each table
// against the portable one.
#include "runtime/model/tensors/tensor.hpp"
#include "tests/unit/cpu/isas.hpp"
#include "tests/unit/cpu/records.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace baton;
using namespace baton::testing;

namespace {
const cpu::kernels& portable() {
  return cpu::kernels_for(cpu::isa::portable);
}
} // namespace

TEST_CASE("rms_norm divides by the root mean square, to the same bits everywhere") {
  for (const std::size_t n : {16U, 32U, 80U, 576U}) {
    const auto x = random_floats(n, 3, 5.0F);
    const auto gain = random_floats(n, 4);
    std::vector<float> expected(n), found(n);
    portable().rms_norm(x.data(), gain.data(), n, 1e-5F, expected.data());
    double squares = 0;
    for (const float v : x)
      squares += double{v} * double{v};
    const double root = std::sqrt(squares / static_cast<double>(n) + 1e-5);
    for (std::size_t i = 0; i < n; ++i)
      CHECK(double{expected[i]} ==
            doctest::Approx(double{x[i]} / root * double{gain[i]}).epsilon(1e-5));
    for (const auto which : available_isas()) {
      cpu::kernels_for(which).rms_norm(x.data(), gain.data(), n, 1e-5F, found.data());
      CHECK(first_difference(expected, found) == -1);
    }
  }
}

TEST_CASE("layer_norm divides the deviations from the mean, to the same bits everywhere") {
  for (const std::size_t n : {16U, 32U, 80U, 576U}) {
    auto x = random_floats(n, 3, 5.0F);
    for (auto& v : x)
      v += 7.0F;
    const auto gain = random_floats(n, 4);
    std::vector<float> expected(n), found(n);
    portable().layer_norm(x.data(), gain.data(), n, 1e-5F, expected.data());
    double mean = 0, squares = 0;
    for (const float v : x)
      mean += double{v} / static_cast<double>(n);
    for (const float v : x)
      squares += (double{v} - mean) * (double{v} - mean);
    const double root = std::sqrt(squares / static_cast<double>(n) + 1e-5);
    for (std::size_t i = 0; i < n; ++i)
      CHECK(double{expected[i]} ==
            doctest::Approx((double{x[i]} - mean) / root * double{gain[i]}).epsilon(1e-5));
    for (const auto which : available_isas()) {
      cpu::kernels_for(which).layer_norm(x.data(), gain.data(), n, 1e-5F, found.data());
      CHECK(first_difference(expected, found) == -1);
    }
    x[5] = INFINITY; // stays visible in the whole row
    for (const auto which : available_isas()) {
      cpu::kernels_for(which).layer_norm(x.data(), gain.data(), n, 1e-5F, found.data());
      CHECK(std::all_of(found.begin(), found.end(), [](float v) { return std::isnan(v); }));
    }
  }
}

TEST_CASE("clamped silu limits gates and ups, and keeps overflow visible") {
  auto gate = random_floats(4096, 5, 12.0F), up = random_floats(4096, 6, 12.0F);
  for (std::size_t i = 0; i < 8; ++i)
    gate[i] = std::vector<float>{-1e30F, -200, -7, 0, 7, 7.5F, 300, 1e30F}[i];
  std::vector<float> expected(gate.size()), found(gate.size());
  portable().clamped_silu_multiply(gate.data(), up.data(), gate.size(), expected.data());
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const double g = std::min(double{gate[i]}, 7.0);
    const double u = std::clamp(double{up[i]}, -7.0, 7.0);
    CAPTURE(gate[i]);
    CHECK(double{expected[i]} ==
          doctest::Approx(g / (1.0 + std::exp(-1.702 * g)) * (u + 1.0)).epsilon(5e-6).scale(1e-30));
  }
  for (const auto which : available_isas()) {
    const auto& table = cpu::kernels_for(which);
    table.clamped_silu_multiply(gate.data(), up.data(), gate.size(), found.data());
    CHECK(first_difference(expected, found) == -1);
    for (const float bad : {INFINITY, -INFINITY, NAN}) {
      const std::vector<float> row(16, bad), other(16, 1.0F);
      table.clamped_silu_multiply(row.data(), other.data(), 16, found.data());
      CHECK(std::isnan(found[0]));
      table.clamped_silu_multiply(other.data(), row.data(), 16, found.data());
      CHECK(std::isnan(found[0]));
    }
  }
}

TEST_CASE("silu is accurate from large negative to large positive gates") {
  std::vector<float> gate = {-1e30F, -200, -104, -90, -50, -1, -1e-8F, 0,
                             1e-8F,  0.5F, 1,    20,  88,  90, 300,    1e30F};
  const std::vector<float> up(gate.size(), 2.0F);
  std::vector<float> expected(gate.size()), found(gate.size());
  portable().silu_multiply(gate.data(), up.data(), gate.size(), expected.data());
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const double exact = 2.0 * double{gate[i]} / (1.0 + std::exp(-double{gate[i]}));
    CAPTURE(gate[i]);
    CHECK(double{expected[i]} == doctest::Approx(exact).epsilon(1e-6).scale(1e-30));
  }
  for (const auto which : available_isas()) {
    const auto many = random_floats(4096, 5, 30.0F);
    std::vector<float> a(many.size()), b(many.size());
    portable().silu_multiply(many.data(), many.data(), many.size(), a.data());
    cpu::kernels_for(which).silu_multiply(many.data(), many.data(), many.size(), b.data());
    CHECK(first_difference(a, b) == -1);
    cpu::kernels_for(which).silu_multiply(gate.data(), up.data(), gate.size(), found.data());
    CHECK(first_difference(expected, found) == -1);
  }
}

TEST_CASE("gelu is accurate from large negative to large positive gates") {
  std::vector<float> gate = {-1e30F, -200, -12, -8, -5, -1, -1e-8F, 0,
                             1e-8F,  0.5F, 1,   5,  8,  12, 300,    1e30F};
  const auto more = random_floats(4096, 5, 6.0F);
  gate.insert(gate.end(), more.begin(), more.end());
  const std::vector<float> up(gate.size(), 2.0F);
  std::vector<float> expected(gate.size()), found(gate.size());
  portable().gelu_multiply(gate.data(), up.data(), gate.size(), expected.data());
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const double g = double{gate[i]};
    const double u = std::sqrt(2.0 / std::acos(-1.0)) * (g + 0.044715 * g * g * g);
    CAPTURE(gate[i]);
    // The exponent is rounded at up to 30 times the error of exp.
    CHECK(double{expected[i]} ==
          doctest::Approx(2.0 * g / (1.0 + std::exp(-2.0 * u))).epsilon(5e-6).scale(1e-30));
  }
  for (const auto which : available_isas()) {
    cpu::kernels_for(which).gelu_multiply(gate.data(), up.data(), gate.size(), found.data());
    CHECK(first_difference(expected, found) == -1);
  }
}

TEST_CASE("a soft cap bends values as tanh does, and keeps overflow visible") {
  auto x = random_floats(4096, 9, 200.0F);
  for (const float special : {0.0F, -0.0F, 1e-6F, -1e-20F, 1e30F, -1e30F, 50.0F, 49.99F})
    x.push_back(special);
  for (std::size_t i = 0; i < 8; ++i) // small ones, up to whole vectors
    x.push_back(1e-3F * static_cast<float>(i));
  for (const float cap : {2.0F, 30.0F, 50.0F}) {
    auto expected = x;
    portable().soft_cap(expected.data(), expected.size(), cap);
    for (std::size_t i = 0; i < x.size(); ++i) {
      CAPTURE(x[i]);
      CHECK(double{expected[i]} ==
            doctest::Approx(double{cap} * std::tanh(double{x[i]} / double{cap})).epsilon(1e-6));
    }
    for (const auto which : available_isas()) {
      auto found = x;
      cpu::kernels_for(which).soft_cap(found.data(), found.size(), cap);
      CHECK(first_difference(expected, found) == -1);
    }
  }
  for (const auto which : available_isas())
    for (const float bad : {INFINITY, -INFINITY, NAN}) {
      std::vector<float> row(16, bad);
      cpu::kernels_for(which).soft_cap(row.data(), row.size(), 30.0F);
      CHECK(std::ranges::all_of(row, [](float v) { return std::isnan(v); }));
    }
}

TEST_CASE("a scaled row is added with one rounding, to the same bits everywhere") {
  const auto x = random_floats(96, 21, 3.0F), y = random_floats(96, 22);
  for (const auto which : available_isas()) {
    auto found = x;
    cpu::kernels_for(which).add_scaled(found.data(), y.data(), y.size(), 0.37F);
    for (std::size_t i = 0; i < x.size(); ++i)
      CHECK(found[i] == std::fma(y[i], 0.37F, x[i]));
  }
}

TEST_CASE("exponentials and their sum match a softmax, to the same bits everywhere") {
  auto x = random_floats(128, 23, 20.0F);
  x[5] = 30.0F;
  std::fill(x.end() - 20, x.end(), -INFINITY); // masked columns
  auto expected = x;
  const float sum = portable().exp_sum(expected.data(), x.size(), 30.0F);
  double exact_sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(double{x[i] - 30.0F}); // the difference is rounded
    exact_sum += exact;
    CHECK(double{expected[i]} == doctest::Approx(exact).epsilon(1e-6).scale(1e-30));
  }
  CHECK(expected[5] == 1.0F);
  CHECK(expected.back() == 0.0F);
  CHECK(double{sum} == doctest::Approx(exact_sum).epsilon(1e-6));
  for (const auto which : available_isas()) {
    auto found = x;
    CHECK(cpu::kernels_for(which).exp_sum(found.data(), x.size(), 30.0F) == sum);
    CHECK(first_difference(expected, found) == -1);
  }
}

TEST_CASE("quantised activations are nearest, with matching sums, to the same bits everywhere") {
  constexpr std::size_t blocks = 40;
  auto values = random_floats(blocks * 32, 6, 7.0F);
  std::fill_n(values.begin(), 32, 0.0F); // a block without a scale
  values[40] = 1e-30F;
  for (const auto width : {cpu::activation_width::bits8, cpu::activation_width::bits16}) {
    const std::size_t bytes = cpu::activation_block_bytes(width);
    const auto quantise = [&](cpu::isa which) {
      std::vector<std::byte> records(blocks * bytes);
      cpu::kernels_for(which).quantise[static_cast<std::size_t>(width)](values.data(), blocks,
                                                                        records.data());
      return records;
    };
    const auto records = quantise(cpu::isa::portable);
    for (std::size_t b = 0; b < blocks; ++b) {
      const auto [codes, terms] = read_block(width, records.data(), b);
      int sum[2] = {0, 0};
      for (std::size_t k = 0; k < 32; ++k) {
        sum[k / 16] += codes[k];
        CHECK(std::abs(static_cast<float>(codes[k]) * terms.scale - values[b * 32 + k]) <=
              terms.scale * 0.501F);
      }
      CHECK(terms.minus_8_sum == -8 * (sum[0] + sum[1]));
      CHECK(terms.minus_128_sum == -128 * (sum[0] + sum[1]));
      CHECK(terms.minus_128_sum_lo == -128 * sum[0]);
      CHECK(terms.minus_128_sum_hi == -128 * sum[1]);
      CHECK(terms.scaled_sum == terms.scale * static_cast<float>(sum[0] + sum[1]));
    }
    for (const auto which : available_isas())
      CHECK(quantise(which) == records);
  }
}

TEST_CASE("rotary embedding turns each pair by its angle, in both conventions") {
  for (const std::size_t n : {64U, 48U, 36U, 2U}) {
    for (const bool is_paired : {true, false}) {
      const auto x = random_floats(n, 9);
      std::vector<float> cosine(n), sine(n);
      const auto index = [&](std::size_t i, std::size_t side) {
        return is_paired ? 2 * i + side : i + side * n / 2;
      };
      for (std::size_t i = 0; i < n / 2; ++i) {
        const double angle = 0.3 * static_cast<double>(i + 1);
        cosine[index(i, 0)] = cosine[index(i, 1)] = static_cast<float>(std::cos(angle));
        sine[index(i, 1)] = static_cast<float>(std::sin(angle));
        sine[index(i, 0)] = -sine[index(i, 1)];
      }
      std::vector<float> first;
      for (const auto which : available_isas()) {
        auto turned = x;
        const auto& table = cpu::kernels_for(which);
        (is_paired ? table.rope_pairs : table.rope_halves)(turned.data(), n, cosine.data(),
                                                           sine.data());
        if (first.empty())
          first = turned;
        CHECK(first_difference(first, turned) == -1);
      }
      for (std::size_t i = 0; i < n / 2; ++i) {
        const double angle = 0.3 * static_cast<double>(i + 1);
        const double a = double{x[index(i, 0)]}, b = double{x[index(i, 1)]};
        CHECK(double{first[index(i, 0)]} ==
              doctest::Approx(a * std::cos(angle) - b * std::sin(angle)).epsilon(1e-5));
        CHECK(double{first[index(i, 1)]} ==
              doctest::Approx(a * std::sin(angle) + b * std::cos(angle)).epsilon(1e-5));
      }
    }
  }
}
