// config.json of a model directory, beside weights that may or may not fit it.
#include "runtime/model/checkpoint/checkpoint.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/model_use.hpp"
#include "tests/support/checkpoint_writer.hpp"
#include "tests/support/scratch_directory.hpp"

using namespace baton;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const testing::scratch_directory scratch;
  static const auto config = [] {
    constexpr auto weights = "tests/data/model/families/llama3/model.safetensors";
    std::filesystem::create_symlink(std::filesystem::path(BATON_SOURCE_DIR) / weights,
                                    scratch / "model.safetensors");
    return scratch / "config.json";
  }();
  const auto text = fuzz::text_of(data, size);
  const auto parsed = model::parse_json_object(text, "config.json");
  if (!parsed || !model::read_checkpoint_config(*parsed))
    return 0;
  testing::write_file(config, text);
  if (const auto whole = model::checkpoint::open(scratch.path()))
    fuzz::use(*whole);
  return 0;
}
