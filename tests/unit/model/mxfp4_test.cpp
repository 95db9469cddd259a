// Experts of gpt-oss: MXFP4 of several tensors and floats of transposed ones have the numbers of
// their formulas, and mismatches are rejected by name.
#include "runtime/model/checkpoint/formats/mxfp4.hpp"
#include "runtime/model/checkpoint/formats/transposed_matrix.hpp"
#include "tests/unit/model/changed_directory.hpp"
#include "tests/unit/model/stored_module.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <random>

using namespace baton;
using namespace baton::testing;
using model::json;
using model::tensor_type;

namespace {

constexpr std::size_t mxfp4_experts = 3, mxfp4_outputs = 10, mxfp4_inputs = 96;

struct mxfp4_module : stored_module {
  std::vector<float> weights; // [experts * out, in]

  mxfp4_module() {
    constexpr std::array numbers = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
    std::mt19937 random(19);
    std::vector<std::uint8_t> blocks, scales;
    for (std::size_t block = 0; block < mxfp4_experts * mxfp4_outputs * mxfp4_inputs / 32;
         ++block) {
      const int exponent = static_cast<int>(random() % 40) - 30;
      scales.push_back(static_cast<std::uint8_t>(exponent + 127));
      for (std::size_t k = 0; k < 16; ++k) {
        blocks.push_back(static_cast<std::uint8_t>(random()));
        for (const unsigned shift : {0U, 4U}) {
          const unsigned code = unsigned{blocks.back()} >> shift & 15U;
          const float number = std::ldexp(numbers.at(code & 7U), exponent);
          weights.push_back(code > 7 && number != 0.0F ? -number : number);
        }
      }
    }
    set("blocks", "U8", {mxfp4_experts, mxfp4_outputs, mxfp4_inputs / 32, 16}, raw_bytes(blocks));
    set("scales", "U8", {mxfp4_experts, mxfp4_outputs, mxfp4_inputs / 32}, raw_bytes(scales));
  }
  result<model::matrix_pointer> open() { return stored_module::open(model::mxfp4_format(true)); }
};

} // namespace

TEST_CASE("rows of MXFP4 are number * 2^scale in every cut") {
  mxfp4_module module;
  const auto matrix = module.open();
  REQUIRE_MESSAGE(matrix, matrix.error().message);
  CHECK((*matrix)->view().type == tensor_type::mxfp4);
  CHECK((*matrix)->view().shape ==
        std::vector<std::uint64_t>{mxfp4_inputs, mxfp4_outputs, mxfp4_experts});
  check_cuts(module, **matrix, module.weights);
}

TEST_CASE("MXFP4's mismatching tensors are rejected by name") {
  const auto refused = [](const char* role, const char* dtype, std::vector<std::size_t> shape,
                          std::size_t bytes) {
    mxfp4_module module;
    module.set(role, dtype, std::move(shape), std::string(bytes, '\0'));
    check_refused(module.open(), errc::bad_model_file, fmt::format("'X.{}'", role));
  };
  refused("blocks", "I8", {3, 10, 3, 16}, 1440);
  refused("blocks", "U8", {3, 10, 48}, 1440);
  refused("blocks", "U8", {3, 10, 6, 8}, 1440);
  refused("scales", "U8", {3, 10, 2}, 60);
  refused("scales", "U8", {30, 3}, 90);
  refused("scales", "F8_E4M3", {3, 10, 3}, 90);
  mxfp4_module module;
  module.leave_out("scales");
  check_refused(module.open(), errc::bad_model_file, "'X.blocks' lacks its scales");
}

TEST_CASE("packed matrices of MXFP4 are read alike") {
  mxfp4_module whole;
  REQUIRE(whole.open());
  stored_module module;
  for (const auto& [role, to] : {std::pair("blocks", "weight_packed"), {"scales", "weight_scale"}})
    for (const auto& tensor : whole.files.at(0).tensors())
      if (tensor.name == std::string("X.") + role)
        module.set(
            to, "U8",
            {mxfp4_experts * mxfp4_outputs, tensor.elements() / mxfp4_experts / mxfp4_outputs},
            {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()});
  const model::mxfp4_format format(false);
  const auto matrix = module.open(format);
  REQUIRE_MESSAGE(matrix, matrix.error().message);
  CHECK((*matrix)->view().shape ==
        std::vector<std::uint64_t>{mxfp4_inputs, mxfp4_experts * mxfp4_outputs});
  check_cuts(module, **matrix, whole.weights);
  module.set("weight_scale", "U8", {30, 2}, std::string(60, '\0'));
  check_refused(module.open(format), errc::bad_model_file, "'X.weight_scale'");
  module.leave_out("weight_scale");
  check_refused(module.open(format), errc::bad_model_file,
                "'X.weight_packed' lacks its weight_scale");
  module.set("weight_packed", "U8", {30, 40}, std::string(1200, '\0'));
  check_refused(module.open(format), errc::bad_model_file, "[outputs, blocks * 16]");
}

TEST_CASE("a transposed matrix is read by its outputs, in every cut") {
  std::vector<float> stored, rows;
  for (std::size_t i = 0; i < mxfp4_experts * mxfp4_inputs * mxfp4_outputs; ++i)
    stored.push_back(static_cast<float>(i));
  for (std::size_t e = 0; e < mxfp4_experts; ++e)
    for (std::size_t o = 0; o < mxfp4_outputs; ++o)
      for (std::size_t i = 0; i < mxfp4_inputs; ++i)
        rows.push_back(stored[(e * mxfp4_inputs + i) * mxfp4_outputs + o]);
  stored_module module;
  module.set("blocks", "F32", {mxfp4_experts, mxfp4_inputs, mxfp4_outputs}, raw_bytes(stored));
  (void)module.open(model::mxfp4_format(true)); // writes the file
  const auto& file = module.files.at(0);
  const auto matrix = model::transposed({0, file.tensors()[0]});
  REQUIRE_MESSAGE(matrix, matrix.error().message);
  CHECK((*matrix)->view().shape ==
        std::vector<std::uint64_t>{mxfp4_inputs, mxfp4_outputs, mxfp4_experts});
  check_cuts(module, **matrix, rows);
  auto flat = file.tensors()[0];
  flat.shape = {mxfp4_outputs, mxfp4_inputs * mxfp4_experts};
  check_refused(model::transposed({0, flat}), errc::bad_model_file, "three dimensions");
  flat.type = tensor_type::i32;
  check_refused(model::transposed({0, flat}), errc::bad_model_file, "found I32");
}

TEST_CASE("directories of gpt-oss are rejected by their published names") {
  const std::string experts_of = "model.layers.0.mlp.experts.";
  for (const auto* name : {"gpt_oss", "gpt_oss_mxfp4"}) {
    CAPTURE(name);
    CHECK(changed(name).refusal() == "");
    CHECK(mentions(refusal_of(name, [](json& c) { c["swiglu_limit"] = 6.0; }), "'swiglu_limit'"));
    const auto renamed = [&](const std::string& from, const std::string& to) {
      return changed(name).header([&](json& h) { rename(h, from.c_str(), to.c_str()); }).refusal();
    };
    for (const auto* tensor : {"model.layers.0.self_attn.sinks", "model.layers.0.mlp.router.bias",
                               "model.layers.0.self_attn.o_proj.bias"})
      CHECK(mentions(renamed(tensor, "model.rotary_emb.inv_freq"),
                     fmt::format("tensor '{}' is missing", tensor)));
    CHECK(mentions(renamed(experts_of + "gate_up_proj_bias", "model.rotary_emb.inv_freq"),
                   "is missing"));
  }
  CHECK(mentions(changed("gpt_oss_mxfp4")
                     .header([&](json& h) {
                       rename(h, (experts_of + "down_proj_scales").c_str(),
                              "model.rotary_emb.inv_freq");
                     })
                     .refusal(),
                 "'" + experts_of + "down_proj_blocks' lacks its scales"));
  CHECK(mentions(changed("gpt_oss_mxfp4")
                     .header([&](json& h) {
                       rename(h, (experts_of + "down_proj_blocks").c_str(),
                              "model.rotary_emb.inv_freq");
                     })
                     .refusal(),
                 "'" + experts_of + "down_proj_scales' lacks its blocks"));
  CHECK(mentions(refusal_of("gpt_oss_mxfp4", [](json& c) { c.erase("quantization_config"); }),
                 "model.layers.0.mlp.experts."));
}
