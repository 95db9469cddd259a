#include "cluster/hub/ollama/ollama_store.hpp"

#include "cluster/files/files_below.hpp"
#include "cluster/files/json_text.hpp"
#include "cluster/files/text_file.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace baton::cluster {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view default_host = "registry.ollama.ai", default_space = "library",
                           default_tag = "latest";
constexpr std::string_view layer_prefix = "application/vnd.ollama.image.";
constexpr std::string_view digest_prefix = "sha256:";
constexpr std::size_t manifest_bytes_max = 1u << 20;
constexpr std::size_t manifests_max = 10'000, layers_max = 256, name_bytes_max = 128,
                      digest_digits_max = 64;
constexpr int manifest_depth = 3; // HOST/NAMESPACE/MODEL

// A part of a name, which becomes a part of a path: never "." or "..".
bool is_name_part(std::string_view text) noexcept {
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !text.empty() && text.size() <= name_bytes_max && is_word(text.front()) &&
         std::all_of(text.begin(), text.end(),
                     [&](char c) { return is_word(c) || c == '.' || c == '-'; });
}

// A host may have a port.
bool is_host(std::string_view text) noexcept {
  const auto colon = text.find(':');
  return is_name_part(text.substr(0, colon)) &&
         (colon == text.npos || is_name_part(text.substr(colon + 1)));
}

// blobs/sha256-abc of "sha256:abc"; empty: it is no digest.
fs::path blob_of(const fs::path& store, const std::string& digest) {
  if (!digest.starts_with(digest_prefix))
    return {};
  const auto digits = digest.substr(digest_prefix.size());
  const bool is_digest = !digits.empty() && digits.size() <= digest_digits_max &&
                         digits.find_first_not_of("0123456789abcdef") == digits.npos;
  return is_digest ? store / "blobs" / ("sha256-" + digits) : fs::path();
}

// Null: it cannot be read, or is no list of layers.
nlohmann::json layers_in(const fs::path& manifest) {
  std::error_code failed;
  if (!fs::is_regular_file(manifest, failed) ||
      fs::file_size(manifest, failed) > manifest_bytes_max)
    return nullptr;
  auto parsed = nlohmann::json::parse(beginning_of(manifest, manifest_bytes_max), nullptr,
                                      /*allow_exceptions=*/false);
  const auto layers = parsed.is_object() ? parsed.find("layers") : parsed.end();
  return layers != parsed.end() && layers->is_array() && layers->size() <= layers_max
             ? std::move(*layers)
             : nlohmann::json();
}

fs::path manifest_of(const fs::path& store, const ollama_name& name) {
  return store / "manifests" / name.host / name.name_space / name.model / name.tag;
}

// Nothing: the manifest cannot be read, or its file is missing.
std::optional<ollama_model> model_of(const fs::path& store, const ollama_name& name) {
  ollama_model found;
  found.name = text_of(name);
  for (const auto& layer : layers_in(manifest_of(store, name))) {
    const auto type = text_member(layer, "mediaType");
    if (!type.starts_with(layer_prefix))
      continue;
    const auto kind = type.substr(layer_prefix.size());
    found.has_adapter = found.has_adapter || kind == "adapter";
    found.has_settings =
        found.has_settings || kind == "template" || kind == "system" || kind == "params";
    const auto blob = kind == "model" ? blob_of(store, text_member(layer, "digest")) : fs::path();
    std::error_code failed;
    if (blob.empty() || !found.blob.empty() || !fs::is_regular_file(blob, failed))
      continue;
    found.bytes = fs::file_size(blob, failed);
    found.blob = blob;
  }
  return found.blob.empty() ? std::nullopt : std::optional(std::move(found));
}

// The name of a manifest's path below manifests/; nothing: it has another depth.
std::optional<ollama_name> name_of_path(const fs::path& below) {
  std::vector<std::string> parts;
  for (const auto& part : below)
    parts.push_back(part.string());
  if (parts.size() != manifest_depth + 1)
    return std::nullopt;
  const bool is_valid =
      is_host(parts[0]) && std::all_of(parts.begin() + 1, parts.end(),
                                       [](const auto& part) { return is_name_part(part); });
  return is_valid ? std::optional(ollama_name{parts[0], parts[1], parts[2], parts[3]})
                  : std::nullopt;
}

} // namespace

std::optional<ollama_name> parse_ollama_name(std::string_view text) {
  ollama_name name{
      std::string(default_host), std::string(default_space), {}, std::string(default_tag)};
  const auto model_at = text.rfind('/') + 1; // 0 without one
  auto model = text.substr(model_at);
  if (const auto colon = model.find(':'); colon != model.npos) {
    name.tag = model.substr(colon + 1);
    model = model.substr(0, colon);
  }
  name.model = model;
  if (model_at > 0) {
    const auto before = text.substr(0, model_at - 1);
    const auto slash = before.find('/');
    if (slash != before.npos)
      name.host = before.substr(0, slash);
    name.name_space = slash == before.npos ? before : before.substr(slash + 1);
  }
  const bool is_valid = is_host(name.host) && is_name_part(name.name_space) &&
                        is_name_part(name.model) && is_name_part(name.tag);
  return is_valid ? std::optional(std::move(name)) : std::nullopt;
}

std::string text_of(const ollama_name& name) {
  auto text = fmt::format("{}:{}", name.model, name.tag);
  if (name.host != default_host)
    return fmt::format("{}/{}/{}", name.host, name.name_space, text);
  return name.name_space != default_space ? fmt::format("{}/{}", name.name_space, text) : text;
}

std::vector<ollama_model> ollama_models(const fs::path& store) {
  std::vector<ollama_model> all;
  const auto manifests = store / "manifests";
  auto paths = files_below(manifests, manifest_depth);
  paths.resize(std::min(paths.size(), manifests_max));
  for (const auto& path : paths)
    if (const auto name = name_of_path(path.lexically_relative(manifests)))
      if (auto model = model_of(store, *name))
        all.push_back(*std::move(model));
  std::sort(all.begin(), all.end(),
            [](const ollama_model& a, const ollama_model& b) { return a.name < b.name; });
  return all;
}

result<ollama_model> find_ollama_model(const std::vector<fs::path>& stores,
                                       const std::string& name) {
  const auto parsed = parse_ollama_name(name);
  if (!parsed)
    return fail(errc::invalid_value, "'{}' is no name of Ollama's: [[HOST/]NAMESPACE/]MODEL[:TAG]",
                name);
  for (const auto& store : stores) {
    auto model = model_of(store, *parsed);
    if (!model)
      continue;
    if (model->has_adapter)
      return fail(errc::unsupported_model,
                  "ollama:{}: it has an adapter (LoRA), which is not supported: merge it into the "
                  "model",
                  model->name);
    return *std::move(model);
  }
  std::vector<std::string> places;
  for (const auto& store : stores)
    places.push_back(store.string());
  return fail(errc::not_found,
              "ollama:{}: Ollama has no such model in {} that can be read; `cluster models` lists "
              "those that it has",
              text_of(*parsed), fmt::join(places, ", "));
}

} // namespace baton::cluster
