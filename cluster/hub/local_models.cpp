#include "cluster/hub/local_models.hpp"

#include "cluster/files/json_text.hpp"
#include "cluster/hub/file_choice.hpp"
#include "cluster/hub/hub_cache.hpp"
#include "cluster/hub/model_reference.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

namespace baton::cluster {
namespace fs = std::filesystem;
namespace {

using json = nlohmann::json;

constexpr std::string_view ollama_hub = "registry.ollama.ai/library/";
constexpr std::string_view ollama_model_layer = "application/vnd.ollama.image.model";
constexpr std::uintmax_t manifest_bytes_max = 1u << 20;
constexpr int folder_depth_max = 4; // PUBLISHER/REPOSITORY/FILE, and one more

bool is_gguf_path(const fs::path& path) {
  return path.extension() == ".gguf";
}

std::uint64_t bytes_of_file(const fs::path& path) {
  std::error_code failed;
  const auto bytes = fs::file_size(path, failed);
  return failed ? 0 : bytes;
}

// Files below the directory, ordered; links to directories are not followed.
std::vector<fs::path> files_below(const fs::path& directory) {
  std::vector<fs::path> all;
  std::error_code failed, unknown;
  for (fs::recursive_directory_iterator at(directory, failed), end; !failed && at != end;
       at.increment(failed)) {
    if (at.depth() >= folder_depth_max)
      at.disable_recursion_pending();
    if (at->is_regular_file(unknown))
      all.push_back(at->path());
  }
  std::sort(all.begin(), all.end());
  return all;
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
    // The quantization where it leads to this file, else the file's path.
    name.quant = quant_of_name(file.path);
    if (!leads_to(name.quant, snapshot.files, file.path))
      name.quant = file.path;
    const auto text = text_of(name);
    to.push_back({text, text, "huggingface", "gguf", file.bytes, directory / file.path});
  }
  if (has_gguf)
    return;
  if (const auto choice = choose_files(snapshot.files, {})) {
    const auto text = text_of(name);
    to.push_back({text, text, "huggingface", "safetensors", choice->bytes(), directory});
  }
}

// "sha256:abc" -> blobs/sha256-abc
fs::path ollama_blob(const fs::path& base, std::string digest) {
  const auto colon = digest.find(':');
  if (colon == digest.npos || !is_etag(digest.substr(0, colon)) ||
      !is_etag(digest.substr(colon + 1)))
    return {};
  digest[colon] = '-';
  return base / "blobs" / digest;
}

void add_ollama(std::vector<local_model>& to, const fs::path& base) {
  const auto manifests = base / "manifests";
  for (const auto& path : files_below(manifests)) {
    if (bytes_of_file(path) > manifest_bytes_max)
      continue;
    std::ifstream in(path, std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(in), {});
    const auto manifest = json::parse(text, nullptr, /*allow_exceptions=*/false);
    const auto layers = manifest.is_object() ? manifest.find("layers") : manifest.end();
    if (layers == manifest.end() || !layers->is_array())
      continue;
    for (const auto& layer : *layers) {
      const auto blob = ollama_blob(base, text_member(layer, "digest"));
      std::error_code failed;
      if (text_member(layer, "mediaType") != ollama_model_layer || blob.empty() ||
          !fs::exists(blob, failed))
        continue;
      const auto tag = path.filename().string();
      auto name = path.parent_path().lexically_relative(manifests).string();
      if (name.starts_with(ollama_hub))
        name = name.substr(ollama_hub.size());
      to.push_back({blob.string(), name + ":" + tag, "ollama", "gguf", bytes_of_file(blob), blob});
    }
  }
}

void add_folder(std::vector<local_model>& to, const fs::path& base, const std::string& source) {
  std::set<fs::path> folders;
  std::error_code failed;
  for (const auto& path : files_below(base)) {
    const auto shown = path.lexically_relative(base).string();
    if (is_gguf_path(path))
      to.push_back({path.string(), shown, source, "gguf", bytes_of_file(path), path});
    else if (path.extension() == ".safetensors" &&
             fs::exists(path.parent_path() / "config.json", failed))
      folders.insert(path.parent_path());
  }
  for (const auto& folder : folders) {
    std::uint64_t bytes = 0;
    for (const auto& path : files_below(folder))
      bytes += bytes_of_file(path);
    to.push_back({folder.string(), folder.lexically_relative(base).string(), source, "safetensors",
                  bytes, folder});
  }
}

} // namespace

model_folders model_folders_of(const environment& variable) {
  model_folders f;
  const auto* given = variable("OLLAMA_MODELS");
  if (given != nullptr && *given != 0)
    f.ollama.push_back(expanded_home(given, variable));
  else
    f.ollama.push_back(expanded_home("~/.ollama/models", variable));
  f.ollama.emplace_back("/usr/share/ollama/.ollama/models");
  f.lmstudio = {expanded_home("~/.lmstudio/models", variable),
                expanded_home("~/.cache/lm-studio/models", variable)};
  return f;
}

std::vector<local_model> local_models(const hub_settings& settings, const model_folders& folders) {
  std::vector<local_model> all;
  const hub_cache cache(settings.cache);
  for (const auto& snapshot : cache.snapshots())
    add_snapshot(all, cache, snapshot);
  add_folder(all, settings.downloads, "url");
  for (const auto& base : folders.ollama)
    add_ollama(all, base);
  for (const auto& base : folders.lmstudio)
    add_folder(all, base, "lmstudio");
  std::stable_sort(all.begin(), all.end(), [](const local_model& a, const local_model& b) {
    return std::pair(std::string_view(a.source), std::string_view(a.shown)) <
           std::pair(std::string_view(b.source), std::string_view(b.shown));
  });
  return all;
}

} // namespace baton::cluster
