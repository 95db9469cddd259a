#include "cluster/config/readers/config_models.hpp"

#include "cluster/config/readers/config_error.hpp"
#include "cluster/config/readers/config_model.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace baton::cluster {
namespace {

// One table, as it was read.
struct model_table {
  std::string path;               // its name in messages
  model_config model;             // or the pattern of a directory's models
  std::vector<std::string> files; // of the directory
  bool has_files = false;         // they are named in the table
};

result<model_table> read_table(const toml::table* table, std::string path,
                               const std::string& origin) {
  model_table t;
  t.path = std::move(path);
  if (auto ok = read_model(table, t.path, origin, t.model, t.files); !ok)
    return ok.error();
  t.has_files = table && table->get("files");
  return t;
}

result<std::vector<model_table>> read_tables(const toml::table* one, const toml::node* several,
                                             const std::string& origin) {
  std::vector<model_table> tables;
  const auto* array = several ? several->as_array() : nullptr;
  if (several && (!array || array->empty()))
    return bad_key(origin, "models", "models must be tables: [[models]]");
  const std::size_t count = array ? array->size() : one ? 1 : 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto path = array ? fmt::format("models[{}]", i) : std::string("model");
    const auto* table = array ? array->get(i)->as_table() : one;
    if (!table)
      return bad_key(origin, path, path + " must be a table");
    auto read = read_table(table, path, origin);
    if (!read)
      return read.error();
    tables.push_back(std::move(*read));
  }
  return tables;
}

// Models with a table of their own win over those found in directories.
bool has_own_table(const model_config& found, const std::vector<model_table>& tables) {
  return std::any_of(tables.begin(), tables.end(), [&](const model_table& t) {
    std::error_code failed; // then it is no such file
    return t.model.models_dir.empty() &&
           (t.model.name == found.name ||
            std::filesystem::equivalent(t.model.path, found.path, failed));
  });
}

std::string reasons(const std::vector<passed_over_model>& passed_over) {
  constexpr std::size_t shown_max = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(shown_max, passed_over.size()); ++i)
    text += fmt::format("; {}: {}", passed_over[i].path.filename().string(), passed_over[i].why);
  return text;
}

// Adds a model for each file of the table's directory.
result<void> add_models_of(model_table& t, const std::vector<model_table>& tables,
                           const std::string& origin, cluster_config& config) {
  const auto key = t.path + ".models_dir";
  if (!t.has_files) {
    auto found = look_into(t.model.models_dir);
    if (!found)
      return bad_key(origin, key, "{}: {}", key, found.error().message);
    if (found->files.empty())
      return bad_key(origin, key, "{}: {} holds no model that can be served{}", key,
                     t.model.models_dir.string(), reasons(found->passed_over));
    t.files = std::move(found->files);
    std::move(found->passed_over.begin(), found->passed_over.end(),
              std::back_inserter(config.passed_over));
  }
  for (const auto& file : t.files) {
    auto m = t.model;
    m.name = name_of_file(file);
    m.path = t.model.models_dir / file;
    if (has_own_table(m, tables))
      continue;
    const auto same = std::find_if(config.models.begin(), config.models.end(),
                                   [&](const model_config& other) { return other.name == m.name; });
    if (same == config.models.end())
      config.models.push_back(std::move(m));
    else if (!t.has_files)
      config.passed_over.push_back(
          {m.path, fmt::format("{} is the model '{}' already", same->path.string(), m.name)});
    else
      return bad_key(origin, t.path + ".files", "{}.files: two models are named '{}'", t.path,
                     m.name);
  }
  return {};
}

} // namespace

result<void> read_models(const toml::table* one, const toml::node* several,
                         const std::string& origin, cluster_config& config) {
  if (one && several)
    return bad_key(origin, "models",
                   "there are [model] and [[models]]: name all of them in [[models]]");
  auto tables = read_tables(one, several, origin);
  if (!tables)
    return tables.error();
  std::set<std::string> names;
  std::set<std::filesystem::path> directories;
  for (auto& t : *tables) {
    const auto& dir = t.model.models_dir;
    if (dir.empty()) {
      config.models.push_back(t.model);
      if (!names.insert(t.model.name).second)
        return bad_key(
            origin, "models.name",
            fmt::format("two models are named '{}': replicas = 2 serves one twice", t.model.name));
    } else if (!directories.insert(dir).second) {
      return bad_key(origin, t.path + ".models_dir", "{}.models_dir: {} has a table already",
                     t.path, dir.string());
    } else if (auto ok = add_models_of(t, *tables, origin, config); !ok) {
      return ok;
    }
  }
  std::uint32_t pipelines = 0;
  for (const auto& m : config.models)
    pipelines += m.replicas;
  if (pipelines > pipelines_max)
    return bad_key(origin, "models.replicas",
                   fmt::format("the models have {} replicas in all, a cluster has at most {}",
                               pipelines, pipelines_max));
  if (!config.models.empty())
    config.model = config.models.front();
  return {};
}

} // namespace baton::cluster
