#include "cluster/models/triton/triton_directory.hpp"

#include "cluster/config/config.hpp"
#include "cluster/config/readers/config_file.hpp"
#include "cluster/config/worker_devices.hpp"
#include "cluster/formats/pbtxt.hpp"
#include "cluster/models/triton/triton_completion.hpp"
#include "cluster/models/triton/triton_versions.hpp"
#include "schema/digest.hpp"
#include "schema/limits.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace baton::cluster {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t files_of_version_max = 4096; // sharded weights have hundreds

std::string stamp_of(const fs::directory_entry& file, const std::string& name) {
  std::error_code ec;
  const auto size = file.is_regular_file(ec) ? file.file_size(ec) : 0;
  const auto time = file.last_write_time(ec).time_since_epoch().count();
  return fmt::format("{}\n{}\n{}\n", name, size, time);
}

// Files that Python writes beside a module are not a change.
bool is_derived(const fs::path& file) {
  return file.filename() == "__pycache__" || file.extension() == ".pyc";
}

// Prevents the author of one model's directory from exposing other files of this machine through
// links. Links within the repository are allowed. `root` is canonical.
result<void> check_stays_in(const fs::path& root, const fs::directory_entry& file) {
  std::error_code ec;
  if (!file.is_symlink(ec))
    return {}; // its parent directory was checked
  const auto real = fs::canonical(file.path(), ec);
  if (ec)
    return fail(errc::bad_config, "{} leads nowhere: {}", file.path().string(), ec.message());
  const auto [end, rest] = std::mismatch(root.begin(), root.end(), real.begin(), real.end());
  if (end != root.end())
    return fail(errc::bad_config, "{} leads out of the model repository", file.path().string());
  return {};
}

result<std::uint64_t> digest_of_version(const fs::path& root, const fs::path& directory) {
  std::vector<std::string> stamps;
  std::error_code ec;
  const auto options = fs::directory_options::follow_directory_symlink;
  for (fs::recursive_directory_iterator it(directory, options, ec), end; !ec && it != end;
       it.increment(ec)) {
    if (is_derived(it->path())) {
      it.disable_recursion_pending();
      continue;
    }
    if (stamps.size() == files_of_version_max)
      return fail(errc::bad_config, "{} has more than {} files", directory.string(),
                  files_of_version_max);
    if (auto ok = check_stays_in(root, *it); !ok)
      return ok.error();
    std::error_code is_gone;
    if (!it->is_directory(is_gone))
      stamps.push_back(stamp_of(*it, it->path().lexically_relative(directory).string()));
  }
  if (ec)
    return fail(errc::io_failed, "{}: {}", directory.string(), ec.message());
  std::sort(stamps.begin(), stamps.end());
  std::uint64_t digest = digest_of("");
  for (const auto& s : stamps)
    digest = digest_behind(digest, s);
  return digest;
}

// Checks the model's directory and its entries, down to the versions.
result<void> check_model_stays_in(const fs::path& root, const fs::directory_entry& directory) {
  if (auto ok = check_stays_in(root, directory); !ok)
    return ok;
  std::error_code ec;
  for (fs::directory_iterator it(directory.path(), ec), end; !ec && it != end; it.increment(ec))
    if (auto ok = check_stays_in(root, *it); !ok)
      return ok;
  return {};
}

// As in Triton, a version's name does not begin with 0, and "0" is not a version.
std::optional<std::uint32_t> version_of(const std::string& name) {
  std::uint32_t version = 0;
  const auto* last = name.data() + name.size();
  const auto read = std::from_chars(name.data(), last, version);
  return read.ec == std::errc() && read.ptr == last && !name.starts_with('0')
             ? std::optional(version)
             : std::nullopt;
}

result<triton_model> read_as_written(const fs::path& directory) {
  triton_model out;
  out.directory = directory.string();
  out.gpus = static_cast<std::uint32_t>(devices_here().size());
  std::error_code ec;
  if (fs::exists(directory / triton_config_file, ec)) {
    auto config = read_config_file(directory / triton_config_file);
    if (!config)
      return config.error();
    out.config = *std::move(config);
  }
  for (fs::directory_iterator it(directory, ec), end; !ec && it != end; it.increment(ec)) {
    const auto version = version_of(it->path().filename().string());
    std::error_code is_gone;
    if (version && it->is_directory(is_gone))
      out.versions.push_back(*version);
  }
  std::sort(out.versions.begin(), out.versions.end());
  if (out.versions.empty() && out.config.empty())
    return fail(errc::bad_config, "it has no config.pbtxt, and no version: a directory that is a "
                                  "number from 1");
  return out;
}

// Narrows a model to one of its versions.
result<triton_model> read_version(triton_model model, std::uint32_t version) {
  model.versions = {version};
  const auto version_directory = fs::path(model.directory) / std::to_string(version);
  std::error_code ec;
  if (fs::exists(version_directory / "model.json", ec)) {
    auto text = read_config_file(version_directory / "model.json");
    if (!text)
      return text.error();
    model.engine = *std::move(text);
  }
  if (auto ok = complete(model, version_directory); !ok)
    return ok.error();
  return model;
}

// A directory, or an entry whose type is unknown, such as a dangling link; read_one reports why.
bool may_be_model(const fs::directory_entry& entry) {
  std::error_code ec;
  const auto type = entry.status(ec).type();
  if (type == fs::file_type::not_found)
    return entry.is_symlink(ec);
  return type == fs::file_type::directory || type == fs::file_type::none;
}

repository_directory read_one(const fs::path& root, const fs::directory_entry& entry) {
  const auto& directory = entry.path();
  repository_directory out;
  out.name = directory.filename().string();
  if (auto ok = check_model_stays_in(root, entry); !ok) {
    out.unreadable = ok.error().message;
    return out;
  }
  auto model = read_as_written(directory);
  if (!model) {
    out.unreadable = model.error().message;
    return out;
  }
  out.model = *std::move(model);
  for (const auto version : out.model.versions) {
    const auto digest = digest_of_version(root, directory / std::to_string(version));
    if (!digest) {
      out.unreadable = digest.error().message;
      return out;
    }
    // Hashes the text, not the file time: rewriting the same text is not a change.
    out.digests[version] = digest_behind(*digest, out.model.config);
  }
  const auto chosen = chosen_versions(out.model.config, out.model.versions, out.name);
  if (chosen) // on failure scan_repository reports the error
    for (const auto version : *chosen) {
      auto alone = out.model;
      alone.digest = out.digests[version];
      out.chosen.emplace(version, read_version(std::move(alone), version));
    }
  return out;
}

} // namespace

bool is_triton_version(const std::string& name) {
  return version_of(name).has_value();
}

result<triton_model> read_triton_model(const fs::path& directory) {
  auto model = read_as_written(directory);
  if (!model || model->versions.empty() || !parse_pbtxt(model->config))
    return model; // the translation reports the error
  const auto name = (directory / "").parent_path().filename().string();
  const auto chosen = chosen_versions(model->config, model->versions, name);
  if (!chosen)
    return chosen.error();
  auto newest = read_version(*std::move(model), chosen->back());
  if (newest)
    newest->versions = *chosen;
  return newest;
}

result<std::vector<repository_directory>> read_model_repository(const fs::path& repository) {
  std::error_code ec;
  std::vector<repository_directory> all;
  const auto root = fs::canonical(repository, ec); // the repository may be a link itself
  for (fs::directory_iterator it(repository, ec), end; !ec && it != end; it.increment(ec)) {
    const auto name = it->path().filename().string();
    if (name.starts_with('.') || !may_be_model(*it))
      continue;
    if (all.size() == limits::models_max)
      return fail(errc::bad_config, "{} has more than {} models", repository.string(),
                  limits::models_max);
    all.push_back(read_one(root, *it));
  }
  if (ec)
    return fail(errc::io_failed, "{}: {}", repository.string(), ec.message());
  std::sort(
      all.begin(), all.end(),
      [](const repository_directory& a, const repository_directory& b) { return a.name < b.name; });
  return all;
}

} // namespace baton::cluster
