#include "cluster/hub/local_models.hpp"

#include "cluster/files/files_below.hpp"
#include "cluster/hub/file_choice.hpp"
#include "cluster/hub/hub_cache.hpp"
#include "cluster/hub/model_reference.hpp"
#include "cluster/hub/ollama/ollama_store.hpp"
#include "runtime/model/part_name.hpp"

#include <algorithm>
#include <set>

namespace baton::cluster {
namespace fs = std::filesystem;
namespace {

constexpr int folder_depth_max = 4; // PUBLISHER/REPOSITORY/FILE, and one more

bool is_gguf_path(const fs::path& path) {
  return path.extension() == ".gguf";
}

std::uint64_t bytes_of_file(const fs::path& path) {
  std::error_code failed;
  const auto bytes = fs::file_size(path, failed);
  return failed ? 0 : bytes;
}

// The revision by which the snapshot is found.
std::string revision_of(const cached_snapshot& snapshot) {
  const auto& names = snapshot.revisions;
  if (std::find(names.begin(), names.end(), hub_revision_default) != names.end())
    return std::string(hub_revision_default);
  return names.empty() ? snapshot.commit : names.front();
}

bool leads_to(const std::string& quant, const std::vector<hub_file>& files,
              const std::string& path) {
  const auto choice = choose_files(files, quant);
  return !quant.empty() && choice && choice->gguf == path;
}

// Bytes of a GGUF model by its file, or its first part's; empty: a later part, or some are missing.
std::optional<std::uint64_t> bytes_of_model(const fs::path& path) {
  const auto part = model::parse_part_name(path.string());
  if (!part)
    return bytes_of_file(path);
  std::uint64_t bytes = 0;
  for (std::uint32_t number = 1; part->number == 1 && number <= part->count; ++number) {
    std::error_code failed;
    if (!fs::exists(part->of(number), failed))
      return std::nullopt;
    bytes += bytes_of_file(part->of(number));
  }
  return part->number == 1 ? std::optional(bytes) : std::nullopt;
}

void add_snapshot(std::vector<local_model>& to, const hub_cache& cache,
                  const cached_snapshot& snapshot) {
  model_reference name;
  name.from = model_reference::source::repository;
  name.repository = snapshot.repository;
  name.revision = revision_of(snapshot);
  const auto directory = cache.snapshot(snapshot.repository, snapshot.commit);
  bool has_gguf = false;
  for (const auto& file : snapshot.files) {
    if (!is_gguf_path(file.path))
      continue;
    has_gguf = true;
    const auto choice = choose_files(snapshot.files, file.path);
    if (!choice || choice->gguf != file.path)
      continue; // a later part, or others are missing
    // The quantization where it leads to this file, else the file's path.
    name.quant = quant_of_name(file.path);
    if (!leads_to(name.quant, snapshot.files, file.path))
      name.quant = file.path;
    const auto text = text_of(name);
    to.push_back({.name = text,
                  .shown = text,
                  .source = "huggingface",
                  .format = "gguf",
                  .bytes = choice->bytes(),
                  .path = directory / file.path});
  }
  if (has_gguf)
    return;
  if (const auto choice = choose_files(snapshot.files, {})) {
    const auto text = text_of(name);
    to.push_back({.name = text,
                  .shown = text,
                  .source = "huggingface",
                  .format = "safetensors",
                  .bytes = choice->bytes(),
                  .path = directory});
  }
}

void add_ollama(std::vector<local_model>& to, const fs::path& store) {
  for (auto& model : ollama_models(store))
    to.push_back({.name = ollama_reference(model.name),
                  .shown = model.name,
                  .source = "ollama",
                  .format = "gguf",
                  .bytes = model.bytes,
                  .path = std::move(model.blob)});
}

void add_folder(std::vector<local_model>& to, const fs::path& base, const std::string& source) {
  std::set<fs::path> folders;
  std::error_code failed;
  for (const auto& path : files_below(base, folder_depth_max)) {
    const auto shown = path.lexically_relative(base).string();
    if (is_gguf_path(path)) {
      if (const auto bytes = bytes_of_model(path))
        to.push_back({.name = path.string(),
                      .shown = shown,
                      .source = source,
                      .format = "gguf",
                      .bytes = *bytes,
                      .path = path});
    } else if (path.extension() == ".safetensors" &&
               fs::exists(path.parent_path() / "config.json", failed)) {
      folders.insert(path.parent_path());
    }
  }
  for (const auto& folder : folders) {
    std::uint64_t bytes = 0;
    for (const auto& path : files_below(folder, folder_depth_max))
      bytes += bytes_of_file(path);
    to.push_back({.name = folder.string(),
                  .shown = folder.lexically_relative(base).string(),
                  .source = source,
                  .format = "safetensors",
                  .bytes = bytes,
                  .path = folder});
  }
}

} // namespace

std::vector<local_model> local_models(const hub_settings& settings) {
  std::vector<local_model> all;
  const hub_cache cache(settings.cache);
  for (const auto& snapshot : cache.snapshots())
    add_snapshot(all, cache, snapshot);
  add_folder(all, settings.downloads, "url");
  for (const auto& base : settings.ollama)
    add_ollama(all, base);
  for (const auto& base : settings.lmstudio)
    add_folder(all, base, "lmstudio");
  std::stable_sort(all.begin(), all.end(), [](const local_model& a, const local_model& b) {
    return std::pair(std::string_view(a.source), std::string_view(a.shown)) <
           std::pair(std::string_view(b.source), std::string_view(b.shown));
  });
  return all;
}

} // namespace baton::cluster
