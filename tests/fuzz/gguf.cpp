// A GGUF file: metadata, tensors, the model it describes and its vocabulary.
#include "runtime/model/gguf/gguf.hpp"

#include "runtime/text/tokenizer/tokenizer.hpp"
#include "runtime/text/vocabulary/vocabulary_gguf.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/model_use.hpp"
#include "tests/support/checkpoint_writer.hpp"
#include "tests/support/scratch_directory.hpp"

using namespace baton;

namespace {

void read_arrays(const model::gguf_file& file) {
  for (const auto& key : file.keys()) {
    (void)file.get_strings(key);
    (void)file.get_i32s(key);
    (void)file.get_f32s(key);
  }
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const testing::scratch_directory scratch;
  const auto path = scratch / "model.gguf";
  testing::write_file(path, fuzz::text_of(data, size));
  const auto file = model::gguf_file::open(path);
  if (!file)
    return 0;
  fuzz::use(*file);
  read_arrays(*file);
  const auto words = text::vocabulary_from(*file);
  if (!words)
    return 0;
  text::encode_scratch pieces(/*cached_pieces=*/64); // the default takes longer than the text
  if (const auto made = text::tokenizer::create(*words))
    (void)made->encode_prompt("The quick <|im_end|> f\xc3\xb6x", true, true, pieces);
  return 0;
}
