// Matrices of 8-bit floats: rows are number * scale, rounded to bfloat16, and mismatches are
// rejected by name. Method: random numbers and scales in each form, against the formula.
#include "runtime/model/checkpoint/formats/fp8.hpp"
#include "tests/unit/model/stored_module.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

using namespace baton;
using namespace baton::testing;
using model::fp8_block;
using model::fp8_format;
using model::json;

namespace {

// As the OCP's specification has it: a sign, four bits of exponent with bias 7, three of fraction.
float e4m3(std::uint8_t bits) {
  const int exponent = bits >> 3 & 15, fraction = bits & 7;
  const double size =
      exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(1.0 + fraction / 8.0, exponent - 7);
  const double value = exponent == 15 && fraction == 7 ? std::nan("") : size;
  return static_cast<float>(bits > 127 ? -value : value);
}

struct fp8_module : stored_module {
  std::size_t in = 160, out = 72;
  std::vector<std::uint8_t> numbers;
  std::mt19937 random{5};

  fp8_module() {
    while (numbers.size() < in * out) {
      const auto bits = static_cast<std::uint8_t>(random());
      if ((bits & 127) != 127) // NaN
        numbers.push_back(bits);
    }
    set("weight", "F8_E4M3", {out, in}, raw_bytes(numbers));
  }
  // Scales [rows, columns] of blocks, and the weights by them.
  std::vector<float> scaled(const std::string& role, const char* dtype,
                            std::vector<std::size_t> shape, fp8_block block) {
    const auto rows = (out + block.first - 1) / block.first;
    const auto columns = (in + block.second - 1) / block.second;
    std::vector<float> scales;
    std::string bytes;
    for (std::size_t i = 0; i < rows * columns; ++i) {
      const float scale = static_cast<float>(random() % 1000 + 1) * 1e-5F;
      const std::string_view kind = dtype;
      if (kind == "F32") {
        scales.push_back(scale);
        bytes += raw_bytes(std::vector{scale});
      } else if (kind == "F8_E8M0") {
        scales.push_back(std::ldexp(1.0F, static_cast<int>(i % 9) - 12));
        bytes += static_cast<char>(i % 9 - 12 + 127);
      } else {
        const bool is_brain = kind == "BF16";
        const auto half = is_brain ? model::f32_to_bf16(scale) : model::f32_to_f16(scale);
        scales.push_back(is_brain ? model::bf16_to_f32(half) : model::f16_to_f32(half));
        bytes += raw_bytes(std::vector{half});
      }
    }
    set(role, dtype, std::move(shape), bytes);
    std::vector<float> weights;
    for (std::size_t o = 0; o < out; ++o)
      for (std::size_t i = 0; i < in; ++i) {
        const float scale = scales[o / block.first * columns + i / block.second];
        const float exact = e4m3(numbers[o * in + i]) * scale;
        weights.push_back(model::bf16_to_f32(model::f32_to_bf16(exact)));
      }
    return weights;
  }
};

} // namespace

TEST_CASE("every byte is its number of E4M3") {
  for (unsigned bits = 0; bits < 256; ++bits) {
    const float found = model::f8_e4m3_to_f32(static_cast<std::uint8_t>(bits));
    const float wanted = e4m3(static_cast<std::uint8_t>(bits));
    CAPTURE(bits);
    if (std::isnan(wanted))
      CHECK(std::isnan(found));
    else
      CHECK(std::memcmp(&found, &wanted, sizeof found) == 0);
  }
  CHECK(model::f8_e4m3_to_f32(0x7E) == 448.0F);
}

TEST_CASE("rows are number * scale in bfloat16, in every form and every cut") {
  for (const auto* dtype : {"F32", "BF16", "F16", "F8_E8M0"})
    for (const auto& block : {fp8_block{128, 128}, {32, 64}, {1, 32}, {24, 160}}) {
      CAPTURE(dtype);
      fp8_module module;
      const auto rows = (module.out + block.first - 1) / block.first;
      const auto columns = (module.in + block.second - 1) / block.second;
      const auto weights = module.scaled("weight_scale_inv", dtype, {rows, columns}, block);
      const auto matrix = module.open(fp8_format(block));
      REQUIRE_MESSAGE(matrix, matrix.error().message);
      CHECK((*matrix)->view().type == model::tensor_type::bf16);
      CHECK((*matrix)->view().shape == std::vector<std::uint64_t>{160, 72});
      check_cuts(module, **matrix, weights);
    }
}

TEST_CASE("a scale is of the matrix or of each output") {
  struct form {
    const char* role;
    std::vector<std::size_t> shape;
    bool is_of_outputs;
  };
  for (const auto& [role, shape, is_of_outputs] : {form{"weight_scale", {}, false},
                                                   {"weight_scale_inv", {1}, false},
                                                   {"weight_scale", {1, 1}, false},
                                                   {"weight_scale", {72, 1}, true},
                                                   {"weight_scale", {72}, true}}) {
    fp8_module module;
    const auto weights = module.scaled(
        role, "F32", shape, is_of_outputs ? fp8_block{1, module.in} : fp8_block{module.out, 160});
    const auto matrix = module.open(fp8_format(std::nullopt));
    REQUIRE_MESSAGE(matrix, matrix.error().message);
    check_cuts(module, **matrix, weights);
  }
}

TEST_CASE("FP8 weights without a fitting scale are rejected by name") {
  const fp8_format blocks(fp8_block{128, 128}), plain(std::nullopt);
  const auto refused = [&](const fp8_format& format, const char* dtype,
                           std::vector<std::size_t> shape, std::size_t bytes,
                           std::string_view mentions) {
    fp8_module module;
    module.set("weight_scale_inv", dtype, std::move(shape), std::string(bytes, '\0'));
    check_refused(module.open(format), errc::bad_model_file, mentions);
  };
  fp8_module bare;
  check_refused(bare.open(blocks), errc::bad_model_file, "'X.weight' lacks its weight_scale_inv");
  check_refused(bare.open(plain), errc::bad_model_file, "'X.weight' lacks its weight_scale");
  refused(blocks, "F32", {1, 1}, 4, "'X.weight_scale_inv': expected [1, 2]");
  refused(blocks, "F32", {2, 1}, 8, "'X.weight_scale_inv': expected [1, 2]");
  refused(blocks, "F32", {2}, 8, "beside 'X.weight' F8_E4M3 [72, 160]");
  refused(blocks, "F32", {}, 4, "(a scale for each 128x128)");
  refused(blocks, "I32", {1, 2}, 8, "expected F32, BF16, F16 or F8_E8M0");
  refused(plain, "F32", {1, 72}, 288, "expected [1] or [72, 1]");
  refused(plain, "F32", {71}, 284, "found F32 [71]");
  fp8_module cube;
  cube.set("weight", "F8_E4M3", {2, 36, 160}, raw_bytes(cube.numbers));
  check_refused(cube.open(plain), errc::bad_model_file, "'X.weight': expected two dimensions");
}

TEST_CASE("FP8's quantization_config is rejected by the unsupported field") {
  const auto read = [](const json& more) {
    json config = {{"quant_method", "fp8"}};
    config.update(more);
    return model::read_quantised_format(json::parse(config.dump())); // numbers as in files
  };
  CHECK((*read({{"weight_block_size", {128, 128}}}))->label() == "FP8, blocks of 128x128");
  CHECK((*read({{"quant_method", "fbgemm_fp8"}}))->label() == "FP8");
  CHECK((*read({{"weight_block_size", nullptr}, {"fmt", "e4m3"}}))->label() == "FP8");
  const auto refused = [&](const char* field, const json& value) {
    const auto found = read({{field, value}});
    REQUIRE(!found);
    CHECK(found.error().code == errc::unsupported_model);
    CHECK(found.error().message.find(fmt::format("'{}'", field)) != std::string::npos);
  };
  refused("fmt", "e5m2");
  for (const json& size : {json(128), json({128}), json({128, 0}), json({128, -1}),
                           json({1.5, 128}), json({128, 128, 1}), json({1, 1U << 21U})})
    refused("weight_block_size", size);
}

TEST_CASE("other methods are rejected by their name") {
  for (const auto* method : {"bitsandbytes", "hqq", "eetq", "aqlm", "quanto", "auto-round", ""}) {
    const auto read = model::read_quantised_format({{"quant_method", method}});
    REQUIRE(!read);
    CAPTURE(read.error().message);
    CHECK(read.error().code == errc::unsupported_model);
    CHECK(read.error().message.find(fmt::format("\"{}\"", method)) != std::string::npos);
    CHECK(read.error().message.find("GGUF") != std::string::npos);
  }
  CHECK(!model::read_quantised_format("fp8"));
  CHECK(!model::read_quantised_format({{"quant_method", 8}}));
}
