// Matrices of NVFP4: rows are number * scale, rounded to bfloat16, and mismatches are rejected by
// name. Method: random numbers and scales in both forms, against the formula.
#include "runtime/model/checkpoint/formats/fp8.hpp"
#include "runtime/model/checkpoint/formats/nvfp4.hpp"
#include "tests/unit/model/stored_module.hpp"

#include <doctest/doctest.h>

#include <array>
#include <random>

using namespace baton;
using namespace baton::testing;
using model::json;
using model::nvfp4_format;

namespace {

struct nvfp4_module : stored_module {
  std::size_t in = 96, out = 20;
  bool is_of_modelopt;
  std::vector<float> weights; // [out, in]

  explicit nvfp4_module(bool modelopt) : is_of_modelopt(modelopt) {
    constexpr std::array numbers = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
    const float of_all = is_of_modelopt ? 0.00123F : 813.7F;
    std::mt19937 random(23);
    std::vector<std::uint8_t> codes, scales;
    for (std::size_t group = 0; group < in * out / 16; ++group) {
      scales.push_back(static_cast<std::uint8_t>(random() % 127)); // neither NaN nor negative
      const float stored = model::f8_e4m3_to_f32(scales.back());
      const float scale = is_of_modelopt ? stored * of_all : stored / of_all;
      for (std::size_t k = 0; k < 8; ++k) {
        codes.push_back(static_cast<std::uint8_t>(random()));
        for (const unsigned shift : {0U, 4U}) {
          const unsigned code = unsigned{codes.back()} >> shift & 15U;
          const float number = numbers.at(code & 7U) * (code > 7 ? -1.0F : 1.0F);
          weights.push_back(model::bf16_to_f32(model::f32_to_bf16(number * scale)));
        }
      }
    }
    set(is_of_modelopt ? "weight" : "weight_packed", "U8", {out, in / 2}, raw_bytes(codes));
    set("weight_scale", "F8_E4M3", {out, in / 16}, raw_bytes(scales));
    if (is_of_modelopt)
      set("weight_scale_2", "F32", {}, raw_bytes(std::vector{of_all}));
    else
      set("weight_global_scale", "F32", {1}, raw_bytes(std::vector{of_all}));
  }
  result<model::matrix_pointer> open() { return stored_module::open(nvfp4_format(is_of_modelopt)); }
};

} // namespace

TEST_CASE("rows of NVFP4 are number * scale in bfloat16, in every cut") {
  for (const bool is_of_modelopt : {true, false}) {
    nvfp4_module module(is_of_modelopt);
    const auto matrix = module.open();
    REQUIRE_MESSAGE(matrix, matrix.error().message);
    CHECK((*matrix)->view().type == model::tensor_type::bf16);
    CHECK((*matrix)->view().shape == std::vector<std::uint64_t>{96, 20});
    check_cuts(module, **matrix, module.weights);
  }
}

TEST_CASE("NVFP4's mismatching tensors are rejected by name") {
  const auto refused = [](bool is_of_modelopt, const char* role, const char* dtype,
                          std::vector<std::size_t> shape, const std::string& bytes) {
    nvfp4_module module(is_of_modelopt);
    module.set(role, dtype, std::move(shape), bytes);
    check_refused(module.open(), errc::bad_model_file, fmt::format("'X.{}'", role));
  };
  const auto zeros = [](std::size_t count) { return std::string(count, '\0'); };
  refused(false, "weight_packed", "I8", {20, 48}, zeros(960));
  refused(false, "weight_packed", "U8", {960}, zeros(960));
  refused(false, "weight_packed", "U8", {20, 44}, zeros(880)); // 88 inputs
  refused(true, "weight", "U8", {20, 40}, zeros(800));         // of other scales
  refused(false, "weight_scale", "F8_E4M3", {20, 5}, zeros(100));
  refused(false, "weight_scale", "U8", {20, 6}, zeros(120));
  refused(false, "weight_global_scale", "F32", {2}, zeros(8));
  refused(false, "weight_global_scale", "F16", {1}, zeros(2));
  refused(false, "weight_global_scale", "F32", {1}, zeros(4)); // no divisor
  refused(true, "weight_scale_2", "F32", {1}, bytes_of({-1.0F}));
  for (const auto* missing : {"weight_scale", "weight_global_scale"}) {
    nvfp4_module module(false);
    module.leave_out(missing);
    check_refused(module.open(), errc::bad_model_file,
                  fmt::format("'X.weight_packed' lacks its {}", missing));
  }
}

TEST_CASE("modelopt's quantization_config is read, or rejected by its field") {
  const auto read = [](const json& algorithm) {
    return model::read_quantised_format({{"quant_method", "modelopt"}, {"quant_algo", algorithm}});
  };
  CHECK((*read("NVFP4"))->label() == "NVFP4");
  CHECK((*read("FP8"))->label() == "FP8");
  for (const json& other : {json("W4A8_AWQ"), json(nullptr), json(4)}) {
    const auto found = read(other);
    REQUIRE(!found);
    CHECK(found.error().message.find("'quant_algo'") != std::string::npos);
  }
}
