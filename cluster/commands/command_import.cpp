// `cluster import`: translates other servers' configurations to nodes.toml.
#include "cluster/commands/command_import_line.hpp"
#include "cluster/commands/commands.hpp"
#include "cluster/config/config.hpp"
#include "cluster/config/readers/config_file.hpp"
#include "cluster/import/torchserve_import.hpp"
#include "cluster/models/triton/triton_completion.hpp"
#include "cluster/models/triton/triton_directory.hpp"
#include "cluster/models/triton/triton_import.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>

namespace baton::cluster {
namespace {

result<torchserve_properties> read_properties(const std::string& file) {
  if (file.empty())
    return torchserve_properties();
  const auto text = read_config_file(file);
  if (!text)
    return text.error();
  auto read = parse_torchserve_properties(*text);
  return read ? read : fail(errc::bad_config, "{}: {}", file, read.error().message);
}

std::string stem_of(const std::string& file) {
  return std::filesystem::path(file).stem().string();
}

bool is_properties(const std::string& file) {
  return std::filesystem::path(file).extension() == ".properties";
}

result<imported_config> import_torchserve_file(const import_options& options) {
  if (options.args.size() > 1)
    return fail(errc::bad_config, "'{}' is not understood", options.args[1]);
  const bool is_server = is_properties(options.from);
  if (is_server && (!options.properties.empty() || !options.handler.empty()))
    return fail(errc::bad_config, "--properties and --handler are for a model-config.yaml");
  const auto server = read_properties(is_server ? options.from : options.properties);
  if (!server)
    return server.error();
  const auto own = stem_of(options.model);
  const auto& name = options.name.empty() ? own : options.name;
  const bool has_others = is_server ? !server->model_store.empty() : !options.handler.empty();
  if (options.model.empty() && !has_others)
    return fail(errc::bad_config, "such a file names no model: --model names the LLM to serve");
  if (is_server)
    return import_torchserve_server(options.model, name, *server);
  const auto text = read_config_file(options.from);
  if (!text)
    return text.error();
  if (options.handler.empty())
    return import_torchserve(*text, options.model, name, *server, usable_gpus());
  const torchserve_handler handler{options.handler, options.from,
                                   options.name.empty() ? stem_of(options.handler) : options.name};
  return import_torchserve_handler(*text, handler, options.model, own, *server);
}

constexpr std::size_t triton_models_max = 1024;

// Imports a repository, one model's directory, or its config.pbtxt.
result<imported_config> import_repository(const import_options& options) {
  if (options.args.size() > 1)
    return fail(errc::bad_config, "'{}' is not understood", options.args[1]);
  auto source = std::filesystem::path(options.from);
  std::error_code ec;
  if (!std::filesystem::is_directory(source, ec))
    source = source.has_parent_path() ? source.parent_path() : ".";
  std::vector<std::filesystem::path> directories;
  const auto is_model = [](const std::filesystem::path& at) {
    std::error_code is_gone;
    return std::filesystem::exists(at / triton_config_file, is_gone) || is_completable(at);
  };
  if (is_model(source))
    directories.push_back(source);
  else
    for (std::filesystem::directory_iterator it(source, ec), end; !ec && it != end;
         it.increment(ec))
      if (is_model(it->path()))
        directories.push_back(it->path());
  if (directories.empty() || directories.size() > triton_models_max)
    return fail(errc::bad_config,
                "{} models with a {}, or a file that one is made of, are in it: 1 to {} are needed",
                directories.size(), triton_config_file, triton_models_max);
  std::sort(directories.begin(), directories.end());
  std::vector<triton_model> models;
  for (const auto& directory : directories) {
    auto one = read_triton_model(directory);
    if (!one)
      return fail(one.error().code, "{}: {}", directory.string(), one.error().message);
    models.push_back(*std::move(one));
  }
  return import_triton(models, options.model, options.name);
}

bool is_repository(const std::string& from) {
  std::error_code ec;
  return from.ends_with(".pbtxt") || std::filesystem::is_directory(from, ec);
}

result<imported_config> import_any(const import_options& options) {
  std::error_code ec;
  const bool is_file = std::filesystem::exists(options.from, ec); // its name may have spaces
  if (is_launch_program(options.from) &&
      !(is_file && options.from.find(' ') != std::string::npos)) {
    auto line = read_launch_line(options.args);
    if (!line)
      return line.error();
    return import_line(*line, options.model, options.name);
  }
  if (is_repository(options.from))
    return import_repository(options);
  if (options.args.size() <= 2 && options.handler.empty()) {
    auto line =
        line_of_compose(options.from, options.args.size() == 2 ? options.args[1] : std::string());
    if (!line)
      return line.error();
    if (*line)
      return import_line(**line, options.model, options.name);
  }
  return import_torchserve_file(options);
}

} // namespace

int command_import(const import_options& options) {
  const auto refuse = [&](const std::string& why) {
    std::fprintf(stderr, "error: %s: %s\n", options.from.c_str(), why.c_str());
    return 1;
  };
  const auto made = import_any(options);
  if (!made)
    return refuse(made.error().message);
  if (auto ok = parse_config(made->toml, "nodes.toml");
      !ok && ok.error().param != "model.models_dir") // a directory that may be there later
    return refuse(ok.error().message);
  std::fputs(made->toml.c_str(), stdout);
  for (const auto& note : made->notes)
    std::fprintf(stderr, "note: %s\n", note.c_str());
  return 0;
}

} // namespace baton::cluster
