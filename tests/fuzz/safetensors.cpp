// A safetensors file, alone and as the weights of a model whose matrices may be quantised.
#include "runtime/model/checkpoint/checkpoint.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/model_use.hpp"
#include "tests/support/checkpoint_writer.hpp"
#include "tests/support/scratch_directory.hpp"

#include <array>

using namespace baton;

namespace {

// seeds/safetensors holds weights that fit this, with each of the formats.
constexpr std::string_view config = R"({"model_type":"llama","architectures":["LlamaForCausalLM"],
  "hidden_size":32,"intermediate_size":32,"num_hidden_layers":1,"num_attention_heads":2,
  "num_key_value_heads":1,"vocab_size":4,"max_position_embeddings":64,"rms_norm_eps":1e-5,
  "rope_theta":10000.0,"hidden_act":"silu","tie_word_embeddings":true,"quantization_config":)";
constexpr std::array<std::string_view, 9> formats = {
    R"({"quant_method":"gptq","bits":4,"group_size":32,"desc_act":false,"sym":true})",
    R"({"quant_method":"fp8","weight_block_size":[16,16]})",
    R"({"quant_method":"awq","bits":4,"group_size":32,"version":"gemm"})",
    R"({"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"g":
      {"weights":{"num_bits":4,"type":"int","symmetric":false,"group_size":32}}}})",
    R"({"quant_method":"compressed-tensors","format":"int-quantized","config_groups":{"g":
      {"weights":{"num_bits":8,"type":"int","symmetric":true}}}})",
    R"({"quant_method":"compressed-tensors","format":"float-quantized","config_groups":{"g":
      {"weights":{"num_bits":8,"type":"float","symmetric":true}}}})",
    R"({"quant_method":"compressed-tensors","format":"nvfp4-pack-quantized","config_groups":{"g":
      {"weights":{"num_bits":4,"type":"float","symmetric":true}}}})",
    R"({"quant_method":"compressed-tensors","format":"mxfp4-pack-quantized","config_groups":{"g":
      {"weights":{"num_bits":4,"type":"float","symmetric":true}}}})",
    R"({"quant_method":"modelopt","quant_algo":"NVFP4"})",
};

// A directory for each format, all with one file of weights.
std::vector<std::filesystem::path> directories_beside(const std::filesystem::path& weights) {
  std::vector<std::filesystem::path> all;
  for (const auto format : formats) {
    const auto directory = weights.parent_path() / fmt::format("{}", all.size());
    std::filesystem::create_directory(directory);
    testing::write_file(directory / "config.json", fmt::format("{}{}}}", config, format));
    std::filesystem::create_symlink(weights, directory / "model.safetensors");
    all.push_back(directory);
  }
  return all;
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const testing::scratch_directory scratch;
  static const auto weights = scratch / "weights.safetensors";
  static const auto directories = directories_beside(weights);
  testing::write_file(weights, fuzz::text_of(data, size));
  const auto file = model::safetensors_file::open(weights);
  if (!file)
    return 0;
  for (const auto& tensor : file->tensors()) {
    (void)model::shape_of(tensor);
    ENSURE(tensor.size_bytes() <= size, "tensor '{}' is larger than its file", tensor.name);
  }
  (void)file->mixed_into(1);
  for (const auto& directory : directories)
    if (const auto whole = model::checkpoint::open(directory))
      fuzz::use(*whole);
  return 0;
}
