// `cluster import`: what users of other servers bring, as our nodes.toml.
#include "cluster/commands.hpp"
#include "cluster/config.hpp"
#include "cluster/launch_import.hpp"
#include "cluster/torchserve_import.hpp"

#include <cstdio>
#include <filesystem>

namespace baton::cluster {
namespace {

result<imported_config> import_yaml(const import_options& options) {
  if (options.words.size() > 1)
    return fail(errc::bad_config, "'{}' is not understood", options.words[1]);
  if (options.model.empty())
    return fail(errc::bad_config, "such a file names no model: --model says which");
  auto text = read_config_file(options.from);
  if (!text)
    return text.error();
  torchserve_properties server;
  if (!options.properties.empty()) {
    const auto properties = read_config_file(options.properties);
    if (!properties)
      return properties.error();
    auto read = parse_torchserve_properties(*properties);
    if (!read)
      return fail(errc::bad_config, "{}: {}", options.properties, read.error().message);
    server = *std::move(read);
  }
  const auto stem = std::filesystem::path(options.model).stem().string();
  const auto& name = options.name.empty() ? stem : options.name;
  return import_torchserve(*text, options.model, name, server);
}

} // namespace

int command_import(const import_options& options) {
  const auto refuse = [&](const std::string& why) {
    std::fprintf(stderr, "error: %s: %s\n", options.from.c_str(), why.c_str());
    return 1;
  };
  const auto made = is_known_launcher(options.from)
                        ? import_launch(options.words, options.model, options.name)
                        : import_yaml(options);
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
