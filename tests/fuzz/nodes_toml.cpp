// nodes.toml, with any content.
#include "cluster/config/config.hpp"
#include "cluster/config/readers/config_file.hpp"
#include "schema/ensure.hpp"
#include "tests/fuzz/input.hpp"

using namespace baton;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto config = cluster::parse_config(fuzz::text_of(data, size), "nodes.toml");
  if (!config) {
    ENSURE(!config.error().message.empty(), "an error without words");
    return 0;
  }
  for (const auto& node : config->nodes)
    for (const auto& device : node.devices)
      (void)cluster::parse_device(device);
  return 0;
}
