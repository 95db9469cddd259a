// A safetensors file, alone and as the weights of a model that GPTQ may have quantised.
#include "runtime/model/checkpoint/checkpoint.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/model_use.hpp"
#include "tests/support/checkpoint_writer.hpp"
#include "tests/support/scratch_directory.hpp"

using namespace baton;

namespace {

// seeds/safetensors holds weights that fit this.
constexpr std::string_view config = R"({"model_type":"llama","architectures":["LlamaForCausalLM"],
  "hidden_size":32,"intermediate_size":32,"num_hidden_layers":1,"num_attention_heads":2,
  "num_key_value_heads":1,"vocab_size":4,"max_position_embeddings":64,"rms_norm_eps":1e-5,
  "rope_theta":10000.0,"hidden_act":"silu","tie_word_embeddings":true,
  "quantization_config":{"quant_method":"gptq","bits":4,"group_size":32,"desc_act":false,
  "sym":true}})";

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const testing::scratch_directory scratch;
  static const auto weights = [] {
    testing::write_file(scratch / "config.json", config);
    return scratch / "model.safetensors";
  }();
  testing::write_file(weights, fuzz::text_of(data, size));
  const auto file = model::safetensors_file::open(weights);
  if (!file)
    return 0;
  for (const auto& tensor : file->tensors()) {
    (void)model::shape_of(tensor);
    ENSURE(tensor.size_bytes() <= size, "tensor '{}' is larger than its file", tensor.name);
  }
  (void)file->mixed_into(1);
  if (const auto whole = model::checkpoint::open(scratch.path()))
    fuzz::use(*whole);
  return 0;
}
