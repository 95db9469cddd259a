// `cluster import model-config.yaml`: what TorchServe's users bring, as our nodes.toml.
#include "cluster/commands.hpp"
#include "cluster/torchserve_import.hpp"

#include <cstdio>

namespace baton::cluster {

int command_import(const import_options& options) {
  const auto refuse = [&](const std::string& why) {
    std::fprintf(stderr, "error: %s: %s\n", options.yaml.c_str(), why.c_str());
    return 1;
  };
  const auto text = read_config_file(options.yaml);
  if (!text)
    return refuse(text.error().message);
  auto name = options.name.empty() ? options.model.stem().string() : options.name;
  const auto made = import_torchserve(*text, options.model.string(), name);
  if (!made)
    return refuse(made.error().message);
  if (auto ok = parse_config(made->toml, "nodes.toml"); !ok)
    return refuse(ok.error().message);
  std::fputs(made->toml.c_str(), stdout);
  for (const auto& note : made->notes)
    std::fprintf(stderr, "note: %s\n", note.c_str());
  return 0;
}

} // namespace baton::cluster
