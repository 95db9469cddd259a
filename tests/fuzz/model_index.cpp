// model.safetensors.index.json of a model directory, beside the files of a valid one.
#include "runtime/model/checkpoint/checkpoint.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/model_use.hpp"
#include "tests/support/checkpoint_writer.hpp"
#include "tests/support/scratch_directory.hpp"

using namespace baton;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const testing::scratch_directory scratch;
  static const auto index = [] {
    const auto index_name = "model.safetensors.index.json";
    const auto from = std::filesystem::path(BATON_SOURCE_DIR) / "tests/data/model/families/qwen2";
    for (const auto& file : std::filesystem::directory_iterator(from))
      if (file.path().filename() != index_name)
        std::filesystem::create_symlink(file.path(), scratch.path() / file.path().filename());
    return scratch / index_name;
  }();
  testing::write_file(index, fuzz::text_of(data, size));
  if (const auto whole = model::checkpoint::open(scratch.path()))
    fuzz::use(*whole);
  return 0;
}
