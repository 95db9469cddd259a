// TorchServe's model-config.yaml and config.properties. The result is an error, or a valid
// configuration of ours that adds nothing to them.
#include "cluster/config/config.hpp"
#include "cluster/config/readers/config_file.hpp"
#include "cluster/import/torchserve_import.hpp"
#include "schema/ensure.hpp"
#include "tests/fuzz/input.hpp"

using namespace baton;

namespace {

void check(const result<cluster::imported_config>& made) {
  if (!made) {
    ENSURE(!made.error().message.empty(), "an error without words");
    return;
  }
  if (const auto config = cluster::parse_config(made->toml, "nodes.toml")) {
    ENSURE(config->models.size() == 1 && config->model.path == "m.gguf",
           "the model is not what was asked for");
    ENSURE(!config->gateway.allow_unauthenticated, "a key became a setting");
  }
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = fuzz::text_of(data, size);
  check(cluster::import_torchserve(text, "m.gguf", "m"));
  check(cluster::import_torchserve_handler(text, {"h.py", "c.yaml", "w"}, "m.gguf", "m"));
  if (const auto server = cluster::parse_torchserve_properties(text))
    check(cluster::import_torchserve("minWorkers: 1\n", "m.gguf", "m", *server));
  if (const auto server = cluster::parse_torchserve_properties(text))
    check(cluster::import_torchserve_server("m.gguf", "m", *server));
  return 0;
}
