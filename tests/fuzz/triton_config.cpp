// A config.pbtxt, and behind a byte of zero the model.json of its newest version: whatever they
// say, what is made of them is a configuration of ours with one LLM, or is refused by one.
#include "cluster/config.hpp"
#include "cluster/triton_import.hpp"
#include "schema/ensure.hpp"
#include "tests/fuzz/input.hpp"

using namespace baton;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text_of(data, size));
  const auto end = std::min(text.find('\0'), text.size());
  const cluster::triton_model one{
      "models/one", text.substr(0, end), {1}, text.substr(std::min(end + 1, text.size()))};
  const auto made = cluster::import_triton({&one, 1}, "m.gguf", "m");
  if (!made) {
    ENSURE(!made.error().message.empty(), "an error without words");
    return 0;
  }
  if (const auto config = cluster::parse_config(made->toml, "nodes.toml"))
    ENSURE(config->models.size() == 1 && config->model.path == "m.gguf" &&
               config->workers.size() <= 1 && config->gateway.api_keys.empty(),
           "a field became another setting");
  return 0;
}
