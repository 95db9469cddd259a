#include "cluster/models/model_archive.hpp"

#include "cluster/config/readers/config_file.hpp"
#include "cluster/config/readers/config_repository.hpp"
#include "cluster/files/json_text.hpp"
#include "cluster/models/packed_files.hpp"
#include "schema/digest.hpp"
#include "schema/limits.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <functional>

namespace baton::cluster {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::json;

constexpr const char* manifest_file = "MAR-INF/MANIFEST.json";
// The text of one file by its name in the archive. Errors: bad_config.
using text_source = std::function<result<std::string>(const std::string&)>;

result<std::string> text_in(const fs::path& directory, const std::string& name) {
  auto text = read_config_file(directory / name);
  return text ? text : no_model_archive(text.error().message);
}

// Whether the path stays inside the archive, wherever it is unpacked.
bool is_inside(const fs::path& name) {
  return name.is_relative() &&
         std::none_of(name.begin(), name.end(), [](const fs::path& part) { return part == ".."; });
}

result<model_archive> read(const text_source& source) {
  const auto text = source(manifest_file);
  if (!text)
    return text.error();
  const auto manifest = json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const auto model = manifest.is_object() ? manifest.find("model") : manifest.end();
  if (!manifest.is_object() || model == manifest.end() || !model->is_object())
    return no_model_archive(fmt::format("{} has no \"model\"", manifest_file));
  model_archive out;
  out.model = text_member(*model, "modelName");
  out.version = text_member(*model, "modelVersion");
  out.handler = text_member(*model, "handler");
  if (!is_name(out.model) || !is_name(out.version))
    return no_model_archive(fmt::format(
        "modelName and modelVersion in {} must be 1 to 64 of [A-Za-z0-9._-]", manifest_file));
  if (const auto runtime = text_member(manifest, "runtime");
      !runtime.empty() && !runtime.starts_with("python"))
    return no_model_archive("its runtime is not Python");
  out.requirements = text_member(*model, "requirementsFile");
  if (!is_inside(out.requirements))
    return no_model_archive("its requirementsFile is outside of it");
  if (const auto file = text_member(*model, "configFile"); !file.empty()) {
    if (!is_inside(file))
      return no_model_archive("its configFile is outside of it");
    auto settings = source(file);
    if (!settings)
      return settings.error();
    out.settings = *std::move(settings);
  }
  out.digest = digest_behind(digest_of(*text), out.settings);
  return out;
}

result<model_archive> read_packed(const packed_files& packed) {
  auto manifest = packed.find(manifest_file);
  if (!manifest)
    return manifest.error();
  return read([&](const std::string& name) -> result<std::string> {
    return name == manifest_file ? manifest->content : packed.at(manifest->directory + name);
  });
}

} // namespace

result<model_archive> read_model_archive(const fs::path& path) {
  std::error_code ec;
  const auto is_directory = fs::is_directory(path, ec);
  if (!is_directory && !fs::is_regular_file(path, ec))
    return fail(errc::model_not_found, "Model not found in the model store: {}",
                path.filename().string());
  auto out = is_directory ? read([&](const std::string& name) { return text_in(path, name); })
                          : read_packed(packed_files(path));
  if (!out)
    return out;
  out->path = path;
  const auto time = fs::last_write_time(path, ec).time_since_epoch().count();
  const auto size = is_directory ? 0 : fs::file_size(path, ec);
  out->digest = digest_behind(out->digest, fmt::format("{}\n{}\n{}", path.string(), time, size));
  return out;
}

result<model_archive> read_archive_bytes(std::string_view bytes) {
  return read_packed(packed_files(bytes));
}

bool has_archive_suffix(std::string_view name) noexcept {
  constexpr std::array<std::string_view, 4> suffixes{".mar", ".tar.gz", ".tgz", ".model"};
  return std::any_of(suffixes.begin(), suffixes.end(),
                     [name](std::string_view s) { return name.ends_with(s); });
}

result<std::vector<std::string>> archives_of(const fs::path& store) {
  std::vector<std::string> all;
  std::error_code ec;
  for (fs::directory_iterator it(store, ec), end; !ec && it != end; it.increment(ec)) {
    const auto name = it->path().filename().string();
    std::error_code is_gone;
    if (name.starts_with('.') || (!it->is_directory(is_gone) && !has_archive_suffix(name)))
      continue;
    if (all.size() == limits::models_max)
      return fail(errc::bad_config, "{} has more than {} models", store.string(),
                  limits::models_max);
    all.push_back(name);
  }
  if (ec)
    return fail(errc::io_failed, "{}: {}", store.string(), ec.message());
  std::sort(all.begin(), all.end());
  return all;
}

} // namespace baton::cluster
