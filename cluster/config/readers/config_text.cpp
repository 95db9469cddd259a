#include "cluster/config/readers/config_text.hpp"

#include "cluster/config/readers/config_file.hpp"
#include "cluster/files/run_dir.hpp"
#include "cluster/formats/toml_section.hpp"

#include <functional>
#include <map>
#include <optional>
#include <sstream>

namespace baton::cluster {
namespace {

constexpr std::string_view directory_key = "models_dir", files_key = "files";

bool has_directories(std::string_view text) {
  return text.find(directory_key) != text.npos;
}

// Calls `what` for each table that names a directory.
void for_each_directory(toml::table& root,
                        const std::function<void(toml::table&, const std::string&)>& what) {
  const auto look = [&](toml::node* node) {
    auto* table = node ? node->as_table() : nullptr;
    const auto* directory = table ? table->get(directory_key) : nullptr;
    if (directory && directory->is_string())
      what(*table, directory->as_string()->get());
  };
  look(root.get("model"));
  if (auto* several = root.get("models"); several && several->is_array())
    for (auto& each : *several->as_array())
      look(&each);
}

std::string text_of(const toml::table& root) {
  std::ostringstream out;
  out << toml::toml_formatter(root, toml::format_flags::none) << "\n";
  return out.str();
}

// The copy of the cluster that this file describes; nothing if it does not run.
std::optional<std::string> copy_of_running(const toml::table& root,
                                           const std::filesystem::path& file) {
  const auto* table = root["cluster"].as_table();
  const auto value_of = [&](std::string_view key) {
    return table ? (*table)[key].value_or(std::string()) : std::string();
  };
  const auto given = value_of("name");
  const auto name = given.empty() ? file.stem().string() : given;
  if (!is_name(name))
    return std::nullopt;
  const auto run = value_of("run_dir");
  const auto dir =
      run_dir::existing(run.empty() ? default_run_dir(name) : std::filesystem::path(run));
  if (!dir || dir->alive().empty())
    return std::nullopt;
  auto text = read_config_file(dir->config());
  return text ? std::optional(*std::move(text)) : std::nullopt;
}

} // namespace

result<std::string> text_of_config(const std::filesystem::path& file) {
  auto text = read_config_file(file);
  if (!text || !has_directories(*text))
    return text;
  auto root = parse_toml(*text, file.string());
  if (!root)
    return root.error();
  std::map<std::string, toml::array> known;
  if (const auto copy = copy_of_running(*root, file))
    if (auto running = parse_toml(*copy, file.string()))
      for_each_directory(*running, [&](toml::table& table, const std::string& directory) {
        if (const auto* files = table.get_as<toml::array>(files_key))
          known.emplace(directory, *files);
      });
  bool is_changed = false;
  for_each_directory(*root, [&](toml::table& table, const std::string& directory) {
    if (const auto at = known.find(directory); at != known.end() && !table.get(files_key)) {
      table.insert(files_key, at->second);
      is_changed = true;
    }
  });
  return is_changed ? text_of(*root) : text;
}

result<std::string> with_files(const std::string& text, const std::string& origin,
                               const cluster_config& config) {
  if (!has_directories(text))
    return text;
  auto root = parse_toml(text, origin);
  if (!root)
    return root.error();
  for_each_directory(*root, [&](toml::table& table, const std::string& directory) {
    toml::array files;
    for (const auto& m : config.models)
      if (m.models_dir == directory)
        files.push_back(m.path.lexically_relative(m.models_dir).string());
    table.insert_or_assign(files_key, std::move(files));
  });
  return text_of(*root);
}

} // namespace baton::cluster
