#include "cluster/commands/command_import_line.hpp"

#include "cluster/config/config.hpp"
#include "cluster/config/readers/config_file.hpp"
#include "cluster/import/launch_files.hpp"
#include "cluster/import/launch_import.hpp"
#include "cluster/import/torchserve_import.hpp"
#include "cluster/models/triton/triton_directory.hpp"
#include "cluster/roles/roles.hpp"
#include "runtime/plugin/library.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace baton::cluster {
namespace fs = std::filesystem;
namespace {

// Free space at the closest existing parent of the run directories.
std::optional<std::uint64_t> free_disk() {
  std::error_code ec;
  auto parent = default_run_dir("x");
  while (!fs::exists(parent, ec) && parent.has_relative_path())
    parent = parent.parent_path();
  const auto space = fs::space(parent, ec);
  return ec ? std::nullopt : std::optional<std::uint64_t>(space.available);
}

// The directory in which huggingface_hub keeps a downloaded model; empty: not downloaded.
// https://huggingface.co/docs/huggingface_hub/guides/manage-cache
std::string downloaded(const std::string& name, const launch_line& line) {
  const auto slash = name.find('/');
  if (slash == name.npos || name.find('/', slash + 1) != name.npos)
    return {};
  std::vector<fs::path> caches;
  for (const auto& m : line.mounts) {
    caches.emplace_back(fs::path(m.outside) / "hub");
    caches.emplace_back(m.outside);
  }
  if (const char* cache = std::getenv("HF_HUB_CACHE"))
    caches.emplace_back(cache);
  if (const char* cache = std::getenv("HF_HOME"))
    caches.emplace_back(fs::path(cache) / "hub");
  if (const char* home = std::getenv("HOME"))
    caches.emplace_back(fs::path(home) / ".cache/huggingface/hub");
  for (const auto& cache : caches) {
    const auto model =
        cache / fmt::format("models--{}--{}", name.substr(0, slash), name.substr(slash + 1));
    std::string revision;
    if (std::ifstream(model / "refs/main") >> revision) {
      std::error_code ec;
      if (auto at = model / "snapshots" / revision; fs::is_directory(at, ec))
        return at.string();
    }
  }
  return {};
}

// Keys that a plan may refuse for this model on this machine, and their replacement.
struct mended_key {
  std::string_view refused, key, value, why;
};
constexpr mended_key mended_keys[] = {
    {"model.kv_cache_bytes", "model.kv_cache_bytes", "\"auto\"",
     "the default holds no sequence of that length; KV uses the memory that the machine has"},
    {"model.tensor_parallel_size", "model.tensor_parallel_size", "",
     "this model cannot be shared so on this machine; answers are the same"},
    {"model.pipeline_parallel_size", "model.pipeline_parallel_size", "",
     "this model cannot be divided so on this machine; answers are the same"},
    {"model.replicas", "model.replicas", "", "this machine has no room for that many"},
    {"model.swap_space", "model.swap_space", "", "it holds no block of KV"},
    {"model.max_batch_total_tokens", "model.max_batch_total_tokens", "",
     "it has no room for one sequence of the model's length; the KV cache is the bound"},
    {"model.dtype", "model.dtype", "",
     "this machine's engine computes with the types of the model's file"},
};

const mended_key* mended_of(const error& why) {
  const auto* found = std::find_if(std::begin(mended_keys), std::end(mended_keys),
                                   [&](const mended_key& k) { return k.refused == why.param; });
  return found == std::end(mended_keys) ? nullptr : found;
}

// The configuration with a warning that it is refused.
imported_config with_refusal(imported_config made, const error& why) {
  const auto warning = fmt::format("`cluster plan` REFUSES THIS: {}", why.message);
  made.notes.push_back(warning);
  made.toml = toml_comment(warning) + made.toml;
  return made;
}

// Repeats the import without each key that the plan refuses, as long as there is a replacement.
result<imported_config> import_model_line(const launch_line& line, import_wishes wishes) {
  for (std::size_t round = 0; round <= std::size(mended_keys) + 1; ++round) {
    auto made = import_launch(line, wishes);
    if (!made)
      return made;
    auto config = parse_config(made->toml, "nodes.toml");
    if (!config && config.error().param == "model.models_dir") // it may be there later
      return with_refusal(*std::move(made), config.error());
    if (!config)
      return config.error();
    const auto path = config->model.path.string();
    std::error_code ec;
    if (!fs::exists(path, ec)) {
      const auto found = wishes.model.empty() ? downloaded(path, line) : std::string();
      if (found.empty())
        return made;
      wishes.model = found;
      continue;
    }
    const auto fits = check_plans(*config, with_this_machine());
    if (fits)
      return made;
    const auto* mended = mended_of(fits.error());
    if (!mended || wishes.changes.contains(std::string(mended->key)))
      return with_refusal(*std::move(made), fits.error());
    wishes.changes[std::string(mended->key)] = {std::string(mended->value),
                                                std::string(mended->why)};
  }
  return fail(errc::internal, "the line was mended more often than it has keys");
}

// `address`: "0.0.0.0:8080", "[::]:8080", or empty.
std::string reached_at(const launch_line& line, const std::string& address) {
  const auto colon = address.rfind(':');
  if (colon == address.npos)
    return address;
  auto host = address.substr(0, colon);
  std::erase_if(host, [](char c) { return c == '[' || c == ']'; });
  return line.reached_at(std::move(host), address.substr(colon + 1)).text();
}

result<imported_config> import_torchserve_line(const launch_line& line, const std::string& model,
                                               const std::string& name) {
  auto read = read_torchserve_line(line);
  if (!read)
    return read.error();
  std::string text;
  std::error_code ec;
  if (read->file.empty() && !line.is_container && fs::exists("config.properties", ec)) {
    read->file = "config.properties"; // TorchServe too reads it from the directory where it starts
    read->notes.emplace_back("config.properties of this directory is read, as TorchServe does");
  }
  if (!read->file.empty()) {
    auto file = read_config_file(read->file);
    if (!file)
      return fail(file.error().code, "--ts-config {}: {}", read->file, file.error().message);
    text = *std::move(file) + "\n";
  }
  const auto properties_variable = [&line](const std::string& asked) {
    const auto it = line.variables.find(asked);
    const bool is_given = it != line.variables.end();
    return is_given            ? std::optional(it->second)
           : line.is_container ? std::nullopt
                               : variable_of_process(asked);
  };
  auto properties = parse_torchserve_properties(text + read->properties, properties_variable);
  if (!properties)
    return properties.error();
  properties->model_store = line.outside(properties->model_store);
  for (auto* address : {&properties->inference, &properties->management, &properties->metrics,
                        &properties->grpc_inference, &properties->grpc_management})
    *address = reached_at(line, *address);
  for (const auto& taken : properties->variables)
    std::erase_if(read->notes, [&](const std::string& note) {
      return note.starts_with(fmt::format("the variable {} is left out", taken));
    });
  properties->notes.insert(properties->notes.begin(), read->notes.begin(), read->notes.end());
  return import_torchserve_server(model, name, *properties);
}

// The tables of the repository's LLMs, which [model_repository] alone would not serve.
std::string llms_of(const triton_line& line, imported_config& out) {
  std::vector<fs::path> directories;
  std::error_code ec;
  for (fs::directory_iterator it(line.repository, ec), end; !ec && it != end; it.increment(ec))
    directories.push_back(it->path());
  std::sort(directories.begin(), directories.end());
  std::vector<triton_model> llms;
  for (const auto& directory : directories) {
    auto one = read_triton_model(directory);
    if (!one || one->engine.empty())
      continue; // the repository's index shows the error
    if (const auto alone = import_triton_llms(std::span(&*one, 1)); alone)
      llms.push_back(*std::move(one));
    else
      out.notes.push_back(
          fmt::format("{} IS LEFT OUT: {}", directory.filename().string(), alone.error().message));
  }
  const auto made = import_triton_llms(llms, line.default_max_tokens);
  if (!made)
    return {}; // each was valid alone
  out.notes.insert(out.notes.end(), made->notes.begin(), made->notes.end());
  return made->toml;
}

result<imported_config> import_triton_line(const launch_line& line, const std::string& model,
                                           const std::string& name) {
  auto read = read_triton_line(line);
  if (!read)
    return read.error();
  imported_config out;
  out.notes = read->notes;
  auto llm =
      model.empty()
          ? llms_of(*read, out)
          : fmt::format("\n[model]\nname = {}\npath = {}\n",
                        toml_string(name.empty() ? fs::path(model).stem().string() : name),
                        toml_string(model)) +
                (read->default_max_tokens ? fmt::format("\n[model.sampling]\nmax_tokens = {}\n",
                                                        *read->default_max_tokens)
                                          : std::string());
  out.toml = "# Made of a command of Triton by `cluster import`.\n";
  for (const auto& note : out.notes)
    out.toml += toml_comment(note);
  out.toml += llm + read->tables;
  return out;
}

std::optional<std::string> variable_of_shell(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

result<std::string> read_of_disk(const std::string& path) {
  return read_config_file(path);
}

// Variables of the `.env` file beside a compose file, for ${NAMES} that the shell does not set.
result<std::map<std::string, std::string>> variables_beside(const fs::path& directory) {
  const auto file = directory / ".env";
  std::error_code ec;
  if (!fs::exists(file, ec))
    return std::map<std::string, std::string>();
  const auto text = read_config_file(file);
  if (!text)
    return text.error();
  auto all = read_env_file(*text, env_file_kind::compose, variable_of_shell);
  return all ? all : fail(errc::bad_config, "{}: {}", file.string(), all.error().message);
}

} // namespace

std::uint32_t usable_gpus() {
  if (!plugin::find_library("torch"))
    return 0;
  constexpr std::uint32_t gpus_max = 64;
  std::uint32_t count = 0;
  std::error_code ec;
  while (count < gpus_max && fs::exists(fmt::format("/dev/nvidia{}", count), ec))
    ++count;
  return count;
}

result<std::optional<launch_line>> line_of_compose(const std::string& file,
                                                   const std::string& service) {
  const auto extension = fs::path(file).extension();
  if (extension != ".yaml" && extension != ".yml")
    return std::optional<launch_line>();
  const auto text = read_config_file(file);
  if (!text)
    return text.error();
  if (!is_compose(*text))
    return std::optional<launch_line>();
  const auto directory = fs::path(file).parent_path();
  const auto beside = variables_beside(directory);
  if (!beside)
    return beside.error();
  const auto variable = [&](const std::string& name) {
    auto value = variable_of_shell(name);
    if (const auto it = beside->find(name); !value && it != beside->end())
      value = it->second;
    return value;
  };
  auto line = read_compose(*text, service, directory.string(), variable);
  if (!line)
    return line.error();
  if (auto ok = take_files(*line, read_of_disk, variable); !ok)
    return ok.error();
  return std::optional(*std::move(line));
}

result<imported_config> import_line(launch_line line, const std::string& model,
                                    const std::string& name) {
  if (auto ok = take_files(line, read_of_disk, variable_of_shell); !ok)
    return ok.error();
  if (line.program == launcher::torchserve)
    return import_torchserve_line(line, model, name);
  if (line.program == launcher::triton || line.program == launcher::triton_openai)
    return import_triton_line(line, model, name);
  import_wishes wishes;
  wishes.model = model;
  wishes.name = name;
  wishes.machine = {usable_gpus(), free_disk()};
  return import_model_line(line, std::move(wishes));
}

} // namespace baton::cluster
