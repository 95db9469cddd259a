#include "cluster/config/models_dir.hpp"

#include "runtime/model/part_name.hpp"
#include "runtime/text/unicode/utf8.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace baton::cluster {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view gguf_ending = ".gguf";
constexpr std::size_t model_name_bytes_max = 64;

bool is_name_character(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

// A part of a model that reads images, as llama.cpp names it.
bool is_projector(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name.find("mmproj") != std::string::npos;
}

// Whether the name can stand in nodes.toml.
bool is_text(std::string_view name) noexcept {
  return text::utf8_valid_prefix(name) == name.size() &&
         std::none_of(name.begin(), name.end(),
                      [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

struct listing {
  std::vector<std::string> ggufs, directories; // names, ordered
};

// Left out are hidden entries, where caches keep their own, and names that are no text.
result<listing> list_of(const fs::path& dir) {
  std::error_code failed;
  listing all;
  std::size_t entries = 0;
  auto it = fs::directory_iterator(dir, failed);
  for (; !failed && it != fs::directory_iterator(); it.increment(failed)) {
    if (++entries > entries_of_dir_max)
      return fail(errc::bad_config, "{} has more than {} entries", dir.string(),
                  entries_of_dir_max);
    auto name = it->path().filename().string();
    std::error_code ignored;
    if (name.starts_with('.') || !is_text(name))
      continue;
    if (fs::is_directory(it->path(), ignored))
      all.directories.push_back(std::move(name));
    else if (name.ends_with(gguf_ending))
      all.ggufs.push_back(std::move(name));
  }
  if (failed)
    return fail(errc::bad_config, "{}: {}", dir.string(), failed.message());
  std::sort(all.ggufs.begin(), all.ggufs.end());
  std::sort(all.directories.begin(), all.directories.end());
  return all;
}

// The models among the files of one directory, by their first files.
models_of_dir models_among(const fs::path& dir, const std::vector<std::string>& ggufs) {
  models_of_dir found;
  const std::set<std::string> here(ggufs.begin(), ggufs.end());
  std::set<std::string> parts_seen;
  for (const auto& name : ggufs) {
    if (is_projector(name)) {
      found.passed_over.push_back(
          {dir / name, "models here read text, and this is an mmproj file"});
      continue;
    }
    const auto part = model::parse_part_name(name);
    if (!part) {
      found.files.push_back(name);
      continue;
    }
    if (!parts_seen.insert(part->of(1)).second) // the first that is here speaks for all
      continue;
    std::optional<std::uint32_t> missing;
    for (std::uint32_t n = 1; n <= part->count && !missing; ++n)
      if (!here.contains(part->of(n)))
        missing = n;
    if (missing)
      found.passed_over.push_back(
          {dir / name, fmt::format("part {} of {} is missing", *missing, part->count)});
    else
      found.files.push_back(name);
  }
  return found;
}

// Adds the model of a directory below; nothing if there is none.
void add_directory(const fs::path& dir, const std::string& name, models_of_dir& to) {
  const auto below = dir / name;
  std::error_code failed;
  if (fs::exists(below / "config.json", failed)) {
    to.files.push_back(name);
    return;
  }
  const auto listed = list_of(below);
  if (!listed) {
    to.passed_over.push_back({below, listed.error().message});
    return;
  }
  auto found = models_among(below, listed->ggufs);
  std::move(found.passed_over.begin(), found.passed_over.end(), std::back_inserter(to.passed_over));
  if (found.files.size() == 1)
    to.files.push_back(fmt::format("{}/{}", name, found.files[0]));
  else if (found.files.size() > 1)
    to.passed_over.push_back(
        {below, fmt::format("it holds {} models: give each a directory, or a models_dir to it",
                            found.files.size())});
}

} // namespace

result<models_of_dir> look_into(const fs::path& dir) {
  const auto listed = list_of(dir);
  if (!listed)
    return listed.error();
  auto all = models_among(dir, listed->ggufs);
  for (const auto& name : listed->directories)
    add_directory(dir, name, all);
  std::sort(all.files.begin(), all.files.end());
  std::map<std::string, std::string> names; // -> the file that has it
  std::erase_if(all.files, [&](const std::string& file) {
    const auto [at, is_new] = names.emplace(name_of_file(file), file);
    if (!is_new)
      all.passed_over.push_back(
          {dir / file, fmt::format("{} is the model '{}' already", at->second, at->first)});
    return !is_new;
  });
  if (all.files.size() > models_of_dir_max)
    return fail(errc::bad_config,
                "{} has {} models, and a cluster has at most {}: name those to "
                "serve in files",
                dir.string(), all.files.size(), models_of_dir_max);
  return all;
}

bool is_file_of_dir(std::string_view text) noexcept {
  const auto is_segment = [](std::string_view s) {
    return !s.empty() && s != "." && s != ".." && s.find('\0') == s.npos;
  };
  const auto slash = text.find('/');
  if (slash == text.npos)
    return is_segment(text);
  return is_segment(text.substr(0, slash)) && is_segment(text.substr(slash + 1)) &&
         text.find('/', slash + 1) == text.npos;
}

std::string name_of_file(std::string_view file) {
  return name_of_model(fs::path(file.substr(0, file.find('/'))));
}

std::string name_of_model(const fs::path& model) {
  auto path = model.lexically_normal();
  if (!path.has_filename())
    path = path.parent_path();
  const fs::path file = model::without_part_number(path.filename().string());
  auto name = file.extension() == gguf_ending ? file.stem().string() : file.string();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !is_name_character(c); }, '-');
  name.resize(std::min(name.size(), model_name_bytes_max));
  return name.empty() || name == "." || name == ".." ? "model" : name;
}

} // namespace baton::cluster
