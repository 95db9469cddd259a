// Matrices as compressed-tensors stores them: rows are scale * (code - zero), and mismatches are
// rejected by name. Method: random codes, scales and zero points, against the formula.
#include "runtime/model/checkpoint/formats/compressed_tensors.hpp"
#include "runtime/model/checkpoint/formats/packed_codes.hpp"
#include "tests/unit/model/stored_module.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace baton;
using namespace baton::testing;
using model::json;
using model::packed_config;
using model::packed_format;
using model::tensor_type;

namespace {

using packed_words = std::vector<std::uint32_t>;

struct packed_module : stored_module {
  std::size_t in = 256, out = 36, groups;
  packed_config config;
  std::vector<std::uint32_t> group_of;
  std::vector<float> weights; // [out, in]

  packed_module(const packed_config& wanted, float step = 1e-4F, bool has_order = false)
      : groups(wanted.group_size == 0 ? 1 : in / wanted.group_size), config(wanted) {
    std::mt19937 random(13);
    const std::uint32_t levels = 1U << config.bits, per_word = 32 / config.bits;
    for (std::size_t i = 0; i < in; ++i)
      group_of.push_back(static_cast<std::uint32_t>(i * groups / in));
    if (has_order)
      std::shuffle(group_of.begin(), group_of.end(), random);
    packed_words packed(out * in / per_word), zero_points((out + per_word - 1) / per_word * groups);
    packed_words zeros(out * groups);
    std::vector<std::uint16_t> scales;
    for (std::size_t i = 0; i < zeros.size(); ++i) {
      zeros[i] = config.is_symmetric ? levels / 2 : static_cast<std::uint32_t>(random() % levels);
      zero_points[i / groups / per_word * groups + i % groups] |=
          zeros[i] << (config.bits * (i / groups % per_word));
      scales.push_back(model::f32_to_bf16(static_cast<float>(random() % 1000 + 1) * step));
    }
    for (std::size_t o = 0; o < out; ++o)
      for (std::size_t i = 0; i < in; ++i) {
        const auto code = static_cast<std::uint32_t>(random() % levels);
        packed[(o * in + i) / per_word] |= code << (config.bits * (i % per_word));
        const auto at = o * groups + group_of[i];
        weights.push_back(model::bf16_to_f32(scales[at]) *
                          static_cast<float>(static_cast<int>(code) - static_cast<int>(zeros[at])));
      }
    set("weight_packed", "I32", {out, in / per_word}, raw_bytes(packed));
    set("weight_scale", "BF16", {out, groups}, raw_bytes(scales));
    set("weight_shape", "I64", {2}, raw_bytes(std::vector<std::uint64_t>{out, in}));
    if (!config.is_symmetric)
      set("weight_zero_point", "I32", {zero_points.size() / groups, groups},
          raw_bytes(zero_points));
    if (has_order)
      set("weight_g_idx", "I32", {in}, raw_bytes(group_of));
  }
  result<model::matrix_pointer> open() { return stored_module::open(packed_format(config)); }
};

std::vector<float> as_bf16(std::vector<float> values) {
  for (auto& value : values)
    value = model::bf16_to_f32(model::f32_to_bf16(value));
  return values;
}

json compressed_config(const char* form, const json& weights) {
  json group = {{"targets", {"Linear"}},
                {"weights", {{"num_bits", 4}, {"type", "int"}, {"symmetric", true}}}};
  group["weights"].update(weights);
  const json config = {{"quant_method", "compressed-tensors"},
                       {"format", form},
                       {"config_groups", {{"group_0", group}}}};
  return json::parse(config.dump()); // numbers as in files
}

} // namespace

TEST_CASE("packed rows are scale * (code - zero) in every cut") {
  for (const std::uint64_t group : {0U, 32U, 64U, 128U})
    for (const auto& [bits, is_symmetric, type] : {std::tuple{4U, true, tensor_type::q4_0},
                                                   {4U, false, tensor_type::q5_0},
                                                   {8U, true, tensor_type::q8_0},
                                                   {8U, false, tensor_type::bf16}}) {
      CAPTURE(group);
      CAPTURE(bits);
      CAPTURE(is_symmetric);
      packed_module module({bits, group, is_symmetric});
      const auto matrix = module.open();
      REQUIRE_MESSAGE(matrix, matrix.error().message);
      CHECK((*matrix)->view().shape == std::vector<std::uint64_t>{256, 36});
      CHECK((*matrix)->view().type == type);
      check_cuts(module, **matrix,
                 type == tensor_type::bf16 ? as_bf16(module.weights) : module.weights);
    }
}

TEST_CASE("packed rows in any order of inputs, or with scales beyond float16, are BF16") {
  packed_module ordered({4, 64, false}, 1e-4F, true);
  packed_module small({4, 64, true}, 1e-9F), large({4, 64, true}, 1e3F);
  for (auto* module : {&ordered, &small, &large}) {
    const auto matrix = module->open();
    REQUIRE_MESSAGE(matrix, matrix.error().message);
    CHECK((*matrix)->view().type == tensor_type::bf16);
    check_cuts(*module, **matrix, as_bf16(module->weights));
  }
}

TEST_CASE("a zero point that the file has is read, whatever config.json says") {
  packed_module module({4, 64, false});
  module.config.is_symmetric = true;
  const auto matrix = module.open();
  REQUIRE_MESSAGE(matrix, matrix.error().message);
  check_cuts(module, **matrix, module.weights);
}

TEST_CASE("bytes with a scale are Q8_0, or BF16 if float16 does not hold the scales") {
  const std::size_t in = 64, out = 24;
  for (const auto* dtype : {"BF16", "F32"})
    for (const std::vector<std::size_t>& shape : {std::vector<std::size_t>{24, 1}, {24}, {1}, {}}) {
      CAPTURE(dtype);
      std::mt19937 random(17);
      std::vector<std::int8_t> codes(in * out);
      for (auto& code : codes)
        code = static_cast<std::int8_t>(random());
      codes[0] = -128;
      const bool is_of_all = shape.empty() || shape[0] == 1;
      const bool is_brain = std::string_view(dtype) == "BF16";
      std::vector<float> scales, weights;
      std::string bytes;
      for (std::size_t i = 0; i < (is_of_all ? 1 : out); ++i) {
        const auto scale = static_cast<float>(random() % 1000 + 1) * 1e-4F;
        const auto half = model::f32_to_bf16(scale);
        scales.push_back(is_brain ? model::bf16_to_f32(half) : scale);
        bytes += is_brain ? raw_bytes(std::vector{half}) : raw_bytes(std::vector{scale});
      }
      for (std::size_t i = 0; i < codes.size(); ++i)
        weights.push_back(static_cast<float>(codes[i]) * scales[is_of_all ? 0 : i / in]);
      stored_module module;
      module.set("weight", "I8", {out, in}, raw_bytes(codes));
      module.set("weight_scale", dtype, shape, bytes);
      const auto matrix = module.open(model::int8_format());
      REQUIRE_MESSAGE(matrix, matrix.error().message);
      CHECK((*matrix)->view().type == (is_brain ? tensor_type::q8_0 : tensor_type::bf16));
      check_cuts(module, **matrix, is_brain ? weights : as_bf16(weights));
    }
}

TEST_CASE("mismatching tensors of compressed-tensors are rejected by name") {
  const auto refused = [](const char* role, const char* dtype, std::vector<std::size_t> shape,
                          std::size_t bytes, errc code = errc::bad_model_file) {
    packed_module module({4, 64, false}, 1e-4F, true);
    module.set(role, dtype, std::move(shape), std::string(bytes, '\0'));
    check_refused(module.open(), code, fmt::format("'X.{}'", role));
  };
  refused("weight_packed", "F32", {36, 32}, 4608);
  refused("weight_packed", "I32", {36, 32, 1}, 4608);
  refused("weight_packed", "I32", {36, 16}, 2304); // weight_shape is of another matrix
  refused("weight_scale", "I32", {36, 4}, 576);
  refused("weight_scale", "BF16", {144}, 288);
  refused("weight_scale", "BF16", {35, 4}, 280);
  refused("weight_scale", "BF16", {36, 3}, 216, errc::unsupported_model);
  refused("weight_shape", "I64", {2}, 16); // zeros
  refused("weight_shape", "F32", {2}, 8);
  refused("weight_shape", "I64", {3}, 24);
  refused("weight_zero_point", "I32", {4, 4}, 64);
  refused("weight_zero_point", "I32", {5, 3}, 60);
  refused("weight_g_idx", "I32", {255}, 1020);
  for (const auto* missing : {"weight_scale", "weight_shape", "weight_zero_point"}) {
    packed_module module({4, 64, false});
    module.leave_out(missing);
    check_refused(module.open(), errc::bad_model_file,
                  fmt::format("'X.weight_packed' lacks its {}", missing));
  }
  packed_module odd({4, 96, true});
  check_refused(odd.open(), errc::unsupported_model, "'group_size' (96)");
  stored_module bytes;
  bytes.set("weight", "I8", {2, 32}, std::string(64, '\1'));
  check_refused(bytes.open(model::int8_format()), errc::bad_model_file,
                "'X.weight' lacks its weight_scale");
  bytes.set("weight_scale", "F32", {3, 1}, std::string(12, '\0'));
  check_refused(bytes.open(model::int8_format()), errc::bad_model_file,
                "'X.weight_scale': expected F16, BF16 or F32 [2, 1]");
}

TEST_CASE("schemes of compressed-tensors are read, or rejected by their field") {
  const auto label = [](const char* form, const json& weights) {
    const auto read = model::read_quantised_format(compressed_config(form, weights));
    REQUIRE_MESSAGE(read, read.error().message);
    return (*read)->label();
  };
  CHECK(label("pack-quantized", {{"group_size", 128}}) ==
        "compressed-tensors int 4-bit, group 128");
  CHECK(label("pack-quantized", {{"num_bits", 8}}) == "compressed-tensors int 8-bit");
  CHECK(label("int-quantized", {{"num_bits", 8}}) == "compressed-tensors int 8-bit");
  CHECK(label("naive-quantized", {{"num_bits", 8}}) == "compressed-tensors int 8-bit");
  const json floats = {{"num_bits", 8}, {"type", "float"}};
  CHECK(label("float-quantized", floats) == "FP8");
  CHECK(label("naive-quantized", floats) == "FP8");
  CHECK(label("nvfp4-pack-quantized", {{"type", "float"}}) == "NVFP4");
  CHECK(label("mxfp4-pack-quantized", {{"type", "float"}}) == "MXFP4");
  auto blocks = floats;
  blocks["block_structure"] = {128, 128};
  CHECK(label("float-quantized", blocks) == "FP8, blocks of 128x128");

  const auto refused = [](json config, std::string_view mentions) {
    const auto read = model::read_quantised_format(config);
    REQUIRE(!read);
    CAPTURE(read.error().message);
    CHECK(read.error().code == errc::unsupported_model);
    CHECK(read.error().message.find(mentions) != std::string::npos);
  };
  const auto packed = [](const json& weights) {
    return compressed_config("pack-quantized", weights);
  };
  refused(packed({{"num_bits", 3}}), "num_bits");
  refused(packed({{"num_bits", nullptr}}), "num_bits");
  refused(packed({{"group_size", 0}}), "group_size");
  refused(packed({{"group_size", "128"}}), "group_size");
  refused(packed({{"type", "float"}}), "'format'");
  refused(packed({{"block_structure", "128x128"}}), "block_structure");
  refused(compressed_config("int-quantized", json::object()), "'format'");
  refused(compressed_config("int-quantized", {{"num_bits", 8}, {"symmetric", false}}),
          "asymmetric");
  refused(compressed_config("nvfp4-pack-quantized", json::object()), "'format'");
  refused(compressed_config("mxfp8-quantized", floats), "mxfp8-quantized");
  refused(compressed_config("marlin-24", json::object()), "marlin-24");
  refused(compressed_config("mixed-precision", json::object()), "mixed-precision");
  auto changed = packed(json::object());
  changed["config_groups"]["group_1"] = changed["config_groups"]["group_0"];
  CHECK(model::read_quantised_format(changed));
  changed["config_groups"]["group_1"]["weights"]["num_bits"] = 8;
  refused(changed, "one scheme for all groups");
  changed = packed(json::object());
  changed["config_groups"]["group_0"]["weights"] = nullptr;
  refused(changed, "groups with weights");
  changed["config_groups"] = json::object();
  refused(changed, "config_groups");
  changed["config_groups"] = {1};
  refused(changed, "config_groups");
  changed = packed(json::object());
  changed["sparsity_config"] = {{"format", "sparse-24-bitmask"}};
  refused(changed, "sparsity_config");
  changed["sparsity_config"] = {{"format", "dense"}};
  changed["transform_config"] = json::object();
  CHECK(model::read_quantised_format(changed));
  changed["transform_config"] = {{"config_groups", {{"u", {{"type", "hadamard"}}}}}};
  refused(changed, "transform_config");
}
