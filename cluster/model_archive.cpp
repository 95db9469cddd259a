#include "cluster/model_archive.hpp"

#include "cluster/config_repository.hpp"
#include "schema/digest.hpp"
#include "schema/limits.hpp"

#include <nlohmann/json.hpp>
#include <zip.h>

#include <algorithm>
#include <functional>
#include <memory>

namespace baton::cluster {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::json;

constexpr const char* manifest_file = "MAR-INF/MANIFEST.json";
constexpr std::size_t text_bytes_max = 1u << 20; // of a file that is read here
constexpr zip_int64_t entries_max = 1 << 16;

using zip_handle = std::unique_ptr<zip_t, decltype(&zip_discard)>;
// The text of one file by its name in the archive. Errors: bad_config.
using text_source = std::function<result<std::string>(const std::string&)>;

error no_archive(std::string_view why) {
  return fail(errc::bad_config, "it is no model archive: {}", why);
}

result<std::string> text_of(zip_t* zip, const std::string& name) {
  const auto index = zip_name_locate(zip, name.c_str(), 0);
  if (index < 0)
    return no_archive(name + " is not in it");
  zip_stat_t about;
  zip_stat_init(&about);
  const auto at = static_cast<zip_uint64_t>(index);
  if (zip_stat_index(zip, at, 0, &about) != 0 || (about.valid & ZIP_STAT_SIZE) == 0 ||
      about.size > text_bytes_max)
    return no_archive(fmt::format("{} is larger than {} bytes", name, text_bytes_max));
  const std::unique_ptr<zip_file_t, decltype(&zip_fclose)> file(zip_fopen_index(zip, at, 0),
                                                                &zip_fclose);
  if (!file)
    return no_archive(fmt::format("{} cannot be read: {}", name, zip_strerror(zip)));
  std::string text(about.size, '\0');
  const auto read = zip_fread(file.get(), text.data(), text.size());
  char more = 0; // its end has been checked only when it was asked for
  if (read != static_cast<zip_int64_t>(text.size()) || zip_fread(file.get(), &more, 1) != 0)
    return no_archive(name + " is damaged");
  return text;
}

result<std::string> text_in(const fs::path& directory, const std::string& name) {
  auto text = read_config_file(directory / name);
  return text ? text : no_archive(text.error().message);
}

// Of the manifest: a text, or nothing.
std::string word_of(const json& in, const char* key) {
  const auto at = in.find(key);
  return at != in.end() && at->is_string() ? at->get<std::string>() : std::string();
}

// A file of the archive, wherever that is unpacked.
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
    return no_archive(fmt::format("{} has no \"model\"", manifest_file));
  model_archive out;
  out.model = word_of(*model, "modelName");
  out.version = word_of(*model, "modelVersion");
  out.handler = word_of(*model, "handler");
  if (!is_name(out.model) || !is_name(out.version))
    return no_archive(fmt::format(
        "modelName and modelVersion in {} must be 1 to 64 of [A-Za-z0-9._-]", manifest_file));
  if (const auto runtime = word_of(manifest, "runtime");
      !runtime.empty() && !runtime.starts_with("python"))
    return no_archive("its runtime is not Python");
  if (!word_of(*model, "requirementsFile").empty())
    out.notes.push_back(fmt::format("{}: what its requirementsFile names is not installed here: "
                                    "workers run the first python3 in the PATH of `cluster up`",
                                    out.model));
  if (const auto file = word_of(*model, "configFile"); !file.empty()) {
    if (!is_inside(file))
      return no_archive("its configFile is outside of it");
    auto settings = source(file);
    if (!settings)
      return settings.error();
    out.settings = *std::move(settings);
  }
  out.digest = digest_behind(digest_of(*text), out.settings);
  return out;
}

result<model_archive> read_zip(zip_t* zip) {
  if (zip_get_num_entries(zip, 0) > entries_max)
    return no_archive(fmt::format("it has more than {} files", entries_max));
  return read([zip](const std::string& name) { return text_of(zip, name); });
}

result<model_archive> read_file(const fs::path& path) {
  int code = 0;
  const zip_handle zip(zip_open(path.c_str(), ZIP_RDONLY, &code), &zip_discard);
  if (zip)
    return read_zip(zip.get());
  zip_error_t why;
  zip_error_init_with_code(&why, code);
  auto refusal = no_archive(zip_error_strerror(&why));
  zip_error_fini(&why);
  return refusal;
}

bool is_archive_directory(const fs::path& path) {
  std::error_code ec;
  return fs::is_regular_file(path / manifest_file, ec);
}

} // namespace

result<model_archive> read_model_archive(const fs::path& path) {
  std::error_code ec;
  const auto is_directory = fs::is_directory(path, ec);
  if (!is_directory && !fs::is_regular_file(path, ec))
    return fail(errc::model_not_found, "Model not found in the model store: {}",
                path.filename().string());
  auto out = is_directory ? read([&](const std::string& name) { return text_in(path, name); })
                          : read_file(path);
  if (!out)
    return out;
  out->path = path;
  const auto time = fs::last_write_time(path, ec).time_since_epoch().count();
  const auto size = is_directory ? 0 : fs::file_size(path, ec);
  out->digest = digest_behind(out->digest, fmt::format("{}\n{}\n{}", path.string(), time, size));
  return out;
}

result<model_archive> read_archive_bytes(std::string_view bytes) {
  zip_error_t why;
  zip_error_init(&why);
  auto* source = zip_source_buffer_create(bytes.data(), bytes.size(), /*freep=*/0, &why);
  const zip_handle zip(source ? zip_open_from_source(source, ZIP_RDONLY, &why) : nullptr,
                       &zip_discard);
  if (!zip && source)
    zip_source_free(source);
  auto refusal = zip ? error{} : no_archive(zip_error_strerror(&why));
  zip_error_fini(&why);
  return zip ? read_zip(zip.get()) : refusal;
}

result<std::vector<std::string>> archives_of(const fs::path& store) {
  std::vector<std::string> all;
  std::error_code ec;
  for (fs::directory_iterator it(store, ec), end; !ec && it != end; it.increment(ec)) {
    const auto name = it->path().filename().string();
    if (!is_archive_name(name) ||
        (it->path().extension() != ".mar" && !is_archive_directory(it->path())))
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
