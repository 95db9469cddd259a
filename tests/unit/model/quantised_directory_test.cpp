// Directories with quantised weights. Every matrix has the numbers that numpy and torch computed
// from the stored tensors (tests/data/model/make_quantised_goldens.py), in the type that the docs
// name. The description has the bytes of these types.
#include "tests/unit/model/changed_directory.hpp"

#include <nlohmann/json.hpp>

#include <bit>
#include <fstream>

using namespace baton;
using namespace baton::testing;
using model::json;
using model::tensor_type;

namespace {

struct quantised_golden {
  std::string name, file_type;
  tensor_type type; // of its quantised matrices
};
const std::vector<quantised_golden> goldens = {
    {"fp8_qwen3", "FP8, blocks of 128x128", tensor_type::bf16},
    {"fp8_qwen3moe", "FP8, blocks of 32x32", tensor_type::bf16},
    {"fp8_qwen2", "FP8, blocks of 16x32", tensor_type::bf16},
    {"fp8_llama", "FP8", tensor_type::bf16},
    {"awq_qwen2", "AWQ 4-bit, group 64", tensor_type::q5_0},
    {"ct_pack", "compressed-tensors int 4-bit, group 32", tensor_type::q4_0},
    {"ct_pack_zeros", "compressed-tensors int 4-bit, group 32", tensor_type::q5_0},
    {"ct_pack_order", "compressed-tensors int 4-bit, group 32", tensor_type::bf16},
    {"ct_pack8", "compressed-tensors int 8-bit", tensor_type::q8_0},
    {"ct_int8", "compressed-tensors int 8-bit", tensor_type::q8_0},
    {"ct_int8_f32", "compressed-tensors int 8-bit", tensor_type::bf16},
    {"ct_fp8", "FP8", tensor_type::bf16},
    {"ct_nvfp4", "NVFP4", tensor_type::bf16},
    {"nvfp4_modelopt", "NVFP4", tensor_type::bf16},
    {"ct_mxfp4", "MXFP4", tensor_type::mxfp4},
    {"gpt_oss_mxfp4", "MXFP4", tensor_type::mxfp4},
    {"gptq_order", "GPTQ 4-bit, group 32", tensor_type::f16},
    {"gptq_bytes", "GPTQ 8-bit, group 32", tensor_type::q8_0},
};

// FNV-1a over the bits of each number, without the sign of a zero.
std::string hash_of(const std::vector<float>& numbers) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const float number : numbers)
    hash = (hash ^ std::bit_cast<std::uint32_t>(number + 0.0F)) * 0x100000001B3U;
  return fmt::format("{:016x}", hash);
}

json weights_of(const std::string& name) {
  std::ifstream in(testing::family(name).string() + ".json");
  return json::parse(in).at("weights");
}

} // namespace

TEST_CASE("quantised matrices have the numbers of an independent conversion") {
  for (const auto& golden : goldens) {
    CAPTURE(golden.name);
    const auto file = model::open_model(testing::family(golden.name));
    REQUIRE_MESSAGE(file, file.error().message);
    const auto weights = weights_of(golden.name);
    CHECK(weights.size() >= 6);
    for (const auto& [tensor, hash] : weights.items()) {
      CAPTURE(tensor);
      const auto view = (*file)->find(tensor);
      REQUIRE(view);
      CHECK(view->type == golden.type);
      std::vector<std::byte> raw(view->size_bytes());
      const auto copied = (*file)->copy_rows(tensor, 0, view->rows(), raw);
      REQUIRE_MESSAGE(copied, copied.error().message);
      std::vector<float> numbers(view->elements());
      model::dequantize_row(view->type, raw.data(), numbers.data(), numbers.size());
      CHECK(hash_of(numbers) == hash.get<std::string>());
    }
  }
}

TEST_CASE("a quantised directory is described by what it is and takes in memory") {
  for (const auto& golden : goldens) {
    CAPTURE(golden.name);
    const auto found = described(testing::family(golden.name));
    CHECK(found.file_type == golden.file_type);
    CHECK(found.type_bytes.contains(golden.type));
    std::uint64_t bytes = 0;
    const auto file = model::open_model(testing::family(golden.name));
    for (const auto& tensor : (*file)->tensors())
      bytes += tensor.size_bytes();
    std::uint64_t counted = 0;
    for (const auto& [type, of_type] : found.type_bytes)
      counted += of_type;
    CHECK(counted == bytes);
  }
}

TEST_CASE("tensors of FP8 modules are rejected by their published names") {
  const std::string q = "model.layers.0.self_attn.q_proj.";
  const auto renamed = [&](const std::string& from, const std::string& to) {
    return changed("fp8_llama")
        .header([&](json& h) { rename(h, from.c_str(), to.c_str()); })
        .refusal();
  };
  CHECK(mentions(renamed(q + "weight_scale_inv", "x.input_scale"),
                 "'" + q + "weight' lacks its weight_scale"));
  CHECK(mentions(renamed(q + "weight", "x.weight"), "lacks its weight"));
  CHECK(mentions(renamed("model.layers.0.mlp.down_proj.weight", "x.input_scale"),
                 "'model.layers.0.mlp.down_proj.weight' is missing"));
  CHECK(renamed(q + "activation_scale", "x.k_scale") == ""); // activations keep their precision
  // A scale beside a matrix that is not quantised.
  CHECK(mentions(renamed(q + "activation_scale", "model.layers.0.mlp.down_proj.weight_scale"),
                 "'model.layers.0.mlp.down_proj.weight_scale' lacks its weight of F8_E4M3"));
}

TEST_CASE("FP8 weights without quantization_config are rejected by name") {
  CHECK(mentions(refusal_of("fp8_llama", [](json& c) { c.erase("quantization_config"); }),
                 "F8_E4M3"));
}
