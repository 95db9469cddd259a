// Goal: the matrix products fulfil the contract of matmul_body.hpp to the bit, for every
// instruction set, number of rows and shape. Method: a scalar loop over the file's own blocks as
// reference.
#include "runtime/cpu/panels/panel.hpp"
#include "runtime/cpu/panels/weight_block.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/unit/cpu/isas.hpp"
#include "tests/unit/cpu/records.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string_view>

using namespace baton;
using namespace baton::testing;

namespace {

constexpr std::size_t rows_max = 100;

struct problem {
  model::tensor_type type;
  std::size_t outputs, columns;
  cpu::activation_width width;
};

struct prepared {
  problem shape;
  cpu::packed_matrix matrix;
  std::vector<std::byte> raw, panels;
  std::vector<float> activations; // [rows_max, columns]
  std::vector<std::byte> records;
  std::size_t record_stride = 0;
};

prepared prepare_with(const problem& shape, std::vector<std::byte> raw,
                      std::vector<float> activations) {
  prepared p;
  p.shape = shape;
  p.raw = std::move(raw);
  p.matrix = {*cpu::panel_format_of(shape.type), shape.outputs, shape.columns, nullptr,
              cpu::code_table_of(shape.type)};
  p.panels.resize(p.matrix.size_bytes());
  p.matrix.panels = p.panels.data();
  const std::size_t row_bytes = p.raw.size() / shape.outputs;
  for (std::size_t n = 0; n < shape.outputs; n += cpu::panel_rows)
    cpu::pack_panel(shape.type, p.raw.data() + n * row_bytes,
                    std::min(cpu::panel_rows, shape.outputs - n), row_bytes, shape.columns,
                    p.panels.data() + n / cpu::panel_rows * p.matrix.panel_bytes());
  p.activations = std::move(activations);
  p.record_stride = p.matrix.blocks() * cpu::activation_block_bytes(shape.width);
  p.records.resize(rows_max * p.record_stride);
  for (std::size_t m = 0; m < rows_max; ++m)
    cpu::kernels_for(cpu::isa::portable)
        .quantise[static_cast<std::size_t>(shape.width)](p.activations.data() + m * shape.columns,
                                                         p.matrix.blocks(),
                                                         p.records.data() + m * p.record_stride);
  return p;
}

prepared prepare(const problem& shape) {
  return prepare_with(shape, random_blocks(shape.type, shape.outputs * shape.columns, 11),
                      random_floats(rows_max * shape.columns, 13, 3.0F));
}

int number_of(const cpu::packed_matrix& matrix, const cpu::panel_layout& layout, int code) {
  if (layout.has_table)
    return matrix.table->codes[code] - 128;
  return code - (layout.has_zero_point ? 8 : 0);
}

int sum_of(const quantised_block& block, std::size_t half) {
  const auto values = std::span(block.values).subspan(half * 16, 16);
  return std::accumulate(values.begin(), values.end(), 0);
}

float expected_quantised(const prepared& p, std::size_t m, std::size_t n) {
  const auto layout = cpu::layout_of(p.matrix.format);
  const std::byte* row = p.raw.data() + n * (p.raw.size() / p.shape.outputs);
  float sum = 0;
  for (std::size_t b = 0; b < p.matrix.blocks(); ++b) {
    const auto weights = cpu::read_weight_block(p.shape.type, row, b);
    const auto block = read_block(p.shape.width, p.records.data() + m * p.record_stride, b);
    int dot[2] = {0, 0};
    for (std::size_t k = 0; k < 32; ++k)
      dot[layout.has_two_scales ? k / 16 : 0] +=
          number_of(p.matrix, layout, weights.codes[k]) * block.values[k];
    for (std::size_t half = 0; half < (layout.has_two_scales ? 2U : 1U); ++half)
      sum = std::fma(static_cast<float>(dot[half]), weights.scale[half] * block.terms.scale, sum);
    if (layout.has_min && layout.has_two_scales)
      for (std::size_t half = 0; half < 2; ++half)
        sum = std::fma(weights.min[half],
                       block.terms.scale * static_cast<float>(sum_of(block, half)), sum);
    else if (layout.has_min)
      sum = std::fma(weights.min[0], block.terms.scaled_sum, sum);
  }
  return sum;
}

float expected_float(const prepared& p, std::size_t m, std::size_t n) {
  std::vector<float> row(p.shape.columns);
  cpu::unpack_row(p.matrix, n, row.data());
  float sum = 0;
  for (std::size_t k = 0; k < row.size(); ++k)
    sum = std::fma(row[k], p.activations[m * row.size() + k], sum);
  return sum;
}

float flushed(float x) {
  return std::abs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0F, x) : x;
}

// Rounds as products of bf16 do: to nearest, ties to even, denormals to zero.
float rounded_to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(flushed(x));
  if (std::isnan(x))
    return x;
  return std::bit_cast<float>((bits + 0x7FFFU + (bits >> 16U & 1U)) & 0xFFFF0000U);
}

// In plain double and float arithmetic. A product of bf16 is exact in double, and so is nearly
// every sum. `least`: below half an ulp of 24 bits under it, the result is denormal.
float fma_flushed(float a, float b, float c) {
  constexpr double least = std::numeric_limits<float>::min();
  const double exact = std::fma(double{flushed(a)}, double{flushed(b)}, double{flushed(c)});
  if (std::abs(exact) < least - 0x1p-151)
    return std::copysign(0.0F, static_cast<float>(exact));
  return std::fma(flushed(a), flushed(b), flushed(c));
}

float expected_bf16(const prepared& p, std::size_t m, std::size_t n) {
  std::vector<float> row(p.shape.columns);
  cpu::unpack_row(p.matrix, n, row.data());
  float sum = 0;
  for (std::size_t k = 0; k < row.size(); k += 32) {
    float even = 0, odd = 0;
    for (std::size_t i = k; i < k + 32; i += 2) {
      const float* x = p.activations.data() + m * row.size() + i;
      even = fma_flushed(row[i], rounded_to_bf16(x[0]), even);
      odd = fma_flushed(row[i + 1], rounded_to_bf16(x[1]), odd);
    }
    sum = fma_flushed(sum, 1, fma_flushed(even, 1, odd));
  }
  return sum;
}

float expected_of(const prepared& p, std::size_t m, std::size_t n) {
  if (p.matrix.format == cpu::panel_format::bf16)
    return expected_bf16(p, m, n);
  return p.matrix.is_float() ? expected_float(p, m, n) : expected_quantised(p, m, n);
}

// [rows_max, padded outputs]; the padding is zero.
std::vector<float> expected_all(const prepared& p) {
  std::vector<float> out(rows_max * p.matrix.padded_rows(), 0.0F);
  for (std::size_t m = 0; m < rows_max; ++m)
    for (std::size_t n = 0; n < p.shape.outputs; ++n)
      out[m * p.matrix.padded_rows() + n] = expected_of(p, m, n);
  return out;
}

std::vector<float> product(const prepared& p, cpu::isa which, std::size_t first, std::size_t rows,
                           bool adds = false, float initial = -1.0F) {
  std::vector<float> out(rows * p.matrix.padded_rows(), initial);
  cpu::matmul_args args;
  args.panels = p.matrix.panels;
  args.panel_count = p.matrix.panel_count();
  args.blocks = p.matrix.blocks();
  args.activation_stride = p.matrix.is_float() ? p.shape.columns * sizeof(float) : p.record_stride;
  args.activations = (p.matrix.is_float() ? reinterpret_cast<const std::byte*>(p.activations.data())
                                          : p.records.data()) +
                     first * args.activation_stride;
  args.rows = rows;
  args.out = out.data();
  args.out_stride = p.matrix.padded_rows();
  args.adds = adds;
  args.table = p.matrix.table;
  std::vector<std::byte> scratch(cpu::matmul_scratch_bytes(args.blocks));
  args.scratch = scratch.data();
  cpu::kernels_for(which).matmul[static_cast<std::size_t>(p.matrix.format)]
                                [static_cast<std::size_t>(p.shape.width)](args);
  return out;
}

std::vector<problem> problems() {
  std::vector<problem> out;
  for (const auto& traits : model::tensor_type_table()) {
    if (!traits.is_supported)
      continue;
    const std::size_t unit = std::max<std::size_t>(32, traits.block_elements);
    for (const auto width : {cpu::activation_width::bits8, cpu::activation_width::bits16}) {
      out.push_back({traits.type, 80, unit * 3, width});
      out.push_back({traits.type, 5, unit, width});
      if (unit == 32) // more blocks than tiles take in one part, and a partial last part
        out.push_back({traits.type, 33, unit * 19, width});
    }
  }
  return out;
}

} // namespace

TEST_CASE("a product has the bits of the scalar loop on every instruction set and row count") {
  for (const problem& shape : problems()) {
    const prepared p = prepare(shape);
    const auto expected = expected_all(p);
    CAPTURE(model::tensor_type_traits(shape.type).name);
    CAPTURE(shape.outputs);
    CAPTURE(static_cast<int>(shape.width));
    for (const auto which : available_isas()) {
      CAPTURE(cpu::name_of(which));
      for (const std::size_t rows : {1U,  2U,  3U,  5U,  7U,  8U,  13U, 16U, 17U, 31U,
                                     32U, 33U, 47U, 63U, 64U, 65U, 79U, 96U, 97U, 100U}) {
        const std::size_t first = rows % 2 == 1 ? rows_max - rows : 0;
        CAPTURE(rows);
        const auto found = product(p, which, first, rows);
        CHECK(first_difference(found, std::span(expected).subspan(first * p.matrix.padded_rows(),
                                                                  found.size())) == -1);
      }
    }
  }
}

TEST_CASE("a product added to its output is one addition to the same sum") {
  using enum cpu::activation_width;
  for (const auto& shape : {problem{model::tensor_type::q4_1, 40, 96, bits8},
                            problem{model::tensor_type::q4_1, 40, 96, bits16},
                            problem{model::tensor_type::bf16, 40, 96, bits8}}) {
    const prepared p = prepare(shape);
    auto expected = expected_all(p);
    for (float& x : expected)
      x = 2.5F + x;
    CAPTURE(model::tensor_type_traits(shape.type).name);
    for (const auto which : available_isas())
      for (const std::size_t rows : {3U, 30U, 70U, 100U}) {
        CAPTURE(cpu::name_of(which));
        CAPTURE(rows);
        const auto found = product(p, which, 0, rows, /*adds=*/true, 2.5F);
        CHECK(first_difference(found, std::span(expected).first(found.size())) == -1);
      }
  }
}

// Denormals, overflow, and sums that cancel to the smallest normal number: fma and an instruction
// that flushes could differ there.
TEST_CASE("products of bf16 have the same bits for hostile values") {
  struct kind {
    std::string_view name;
    std::uint32_t least_exponent, exponents, activation_exponent;
  };
  constexpr kind kinds[] = {{"all", 0, 255, 0},
                            {"about the least normal", 60, 6, 61},
                            {"denormal", 0, 3, 120},
                            {"overflowing", 180, 74, 190}};
  for (const kind& each : kinds) {
    CAPTURE(each.name);
    std::mt19937 random(17);
    const auto drawn = [&] { return static_cast<std::uint32_t>(random()); };
    const auto bits = [&](std::uint32_t least) {
      return drawn() << 31U | (least + drawn() % each.exponents) << 23U |
             (drawn() % 2 == 0 ? 0 : drawn() & 0x7FFFFFU);
    };
    const problem shape{model::tensor_type::bf16, 64, 96, cpu::activation_width::bits8};
    std::vector<std::byte> raw(shape.outputs * shape.columns * 2);
    for (std::size_t i = 0; i < raw.size(); i += 2) {
      const auto weight = static_cast<std::uint16_t>(bits(each.least_exponent) >> 16U);
      std::memcpy(raw.data() + i, &weight, sizeof weight);
    }
    std::vector<float> activations(rows_max * shape.columns);
    for (float& x : activations)
      x = std::bit_cast<float>(bits(each.activation_exponent));
    const prepared p = prepare_with(shape, std::move(raw), std::move(activations));
    const auto expected = expected_all(p);
    for (const auto which : available_isas()) {
      CAPTURE(cpu::name_of(which));
      const auto found = product(p, which, 0, rows_max);
      std::size_t different = 0; // all NaNs count as equal
      for (std::size_t i = 0; i < found.size(); ++i)
        if (!(std::isnan(found[i]) && std::isnan(expected[i])))
          different += first_difference({&found[i], 1}, {&expected[i], 1}) != -1 ? 1 : 0;
      CHECK(different == 0);
    }
  }
}

TEST_CASE("sixteen-bit activations keep five digits, eight-bit ones two") {
  for (const auto& [width, bound] :
       {std::pair{cpu::activation_width::bits8, 1e-2}, {cpu::activation_width::bits16, 5e-5}}) {
    const prepared p = prepare({model::tensor_type::q4_1, 32, 512, width});
    const auto found = product(p, cpu::detect_isa(), 0, rows_max);
    double error = 0, size = 0;
    std::vector<float> row(p.shape.columns);
    for (std::size_t n = 0; n < 32; ++n) {
      cpu::unpack_row(p.matrix, n, row.data());
      for (std::size_t m = 0; m < rows_max; ++m) {
        double exact = 0;
        for (std::size_t k = 0; k < row.size(); ++k)
          exact += double{row[k]} * double{p.activations[m * row.size() + k]};
        error = std::max(error, std::abs(exact - double{found[m * 32 + n]}));
        size = std::max(size, std::abs(exact));
      }
    }
    CAPTURE(static_cast<int>(width));
    CHECK(error < bound * size);
    CHECK(error > 0); // the two are not the same code
  }
}
