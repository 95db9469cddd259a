// TorchServe's model-config.yaml: whatever it says, what is made of it is a configuration of ours
// that says no more than it should, or is refused by one.
#include "cluster/config.hpp"
#include "cluster/torchserve_import.hpp"
#include "schema/ensure.hpp"
#include "tests/fuzz/input.hpp"

using namespace baton;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto made = cluster::import_torchserve(fuzz::text_of(data, size), "m.gguf", "m");
  if (!made) {
    ENSURE(!made.error().message.empty(), "an error without words");
    return 0;
  }
  if (const auto config = cluster::parse_config(made->toml, "nodes.toml")) {
    ENSURE(config->models.size() == 1 && config->model.path == "m.gguf",
           "the model is not what was asked for");
    ENSURE(!config->gateway.allow_unauthenticated, "a key became a setting");
  }
  return 0;
}
