#include "cluster/config/readers/config_repository.hpp"

#include "cluster/config/readers/config_error.hpp"
#include "runtime/text/unicode/pattern_check.hpp"
#include "schema/archive_url.hpp"
#include "schema/limits.hpp"

#include <algorithm>

namespace baton::cluster {
namespace {

constexpr double poll_seconds_max = 86400;
constexpr double poll_seconds_min = 0.1;

struct control_name {
  std::string_view name; // Triton's name
  model_control means;
};
constexpr control_name controls[] = {{"none", model_control::none},
                                     {"poll", model_control::poll},
                                     {"explicit", model_control::clients}};

// Triton accepts several paths, but their models share one name space anyway.
result<void> check_path(const toml::table& table, const std::string& origin) {
  const auto* path = table.get("path");
  if (path && path->is_array())
    return bad_value(origin, "model_repository.path",
                     "is one directory here: put the models of several into one, as links");
  return {};
}

result<void> read_repository(const toml::node* node, const std::string& origin,
                             cluster_config& config) {
  if (!node)
    return {};
  if (!node->is_table())
    return fail_param(errc::bad_config, "model_repository",
                      "{}: model_repository must be a table: [model_repository]", origin);
  if (auto ok = check_path(*node->as_table(), origin); !ok)
    return ok;
  repository_config r;
  std::string path, control = "none";
  toml_section s(node->as_table(), "model_repository", origin);
  s.read("path", path);
  s.read("control_mode", control);
  s.read_seconds("poll_seconds", r.poll_interval, poll_seconds_min, poll_seconds_max);
  s.read("load_models", r.load_models);
  if (auto ok = s.finish(); !ok)
    return ok;
  if (path.empty())
    return bad_value(origin, "model_repository.path", "is missing: the directory of the models");
  r.path = path;
  const auto* known = std::find_if(std::begin(controls), std::end(controls),
                                   [&](const control_name& c) { return c.name == control; });
  if (known == std::end(controls))
    return bad_value(origin, "model_repository.control_mode",
                     "is '{}': use \"none\", \"poll\" or \"explicit\"", control);
  r.control = known->means;
  if (!r.load_models.empty() && r.control != model_control::clients)
    return bad_value(origin, "model_repository.load_models",
                     "is for control_mode = \"explicit\": with \"{}\" all models are loaded",
                     control);
  for (const auto& m : r.load_models)
    if (m != "*" && !is_name(m))
      return bad_value(origin, "model_repository.load_models", "has '{}', which names no model", m);
  config.repository = std::move(r);
  return {};
}

result<archive_settings> read_archive_settings(const toml::table* table, const std::string& path,
                                               const std::string& origin) {
  archive_settings out{.model = "", .version = "1.0", .settings = {}};
  toml_section s(table, path, origin);
  const auto read = [&](std::string_view key, std::optional<std::uint32_t>& value,
                        std::uint32_t most) {
    std::uint32_t number = 0;
    s.read(key, number, 1, most);
    if (number > 0)
      value = number;
  };
  s.read("name", out.model);
  s.read("version", out.version);
  read("min_workers", out.settings.workers_min, workers_of_cluster_max);
  read("batch_size", out.settings.batch_size, limits::batch_items_max);
  read("response_timeout", out.settings.response_timeout, archive_seconds_max);
  read("startup_timeout", out.settings.startup_timeout, archive_seconds_max);
  std::chrono::milliseconds delay{0};
  s.read_seconds("max_batch_delay", delay, 0, archive_seconds_max);
  if (delay.count() > 0)
    out.settings.max_batch_delay = static_cast<std::uint32_t>(delay.count());
  if (auto ok = s.finish(); !ok)
    return ok.error();
  if (!is_name(out.model) || !is_name(out.version))
    return bad_key(origin, path + ".name", "{}.name and version must be those of an archive", path);
  return out;
}

// [[model_store.models]]
result<void> read_archives(const toml::node* node, const std::string& origin, store_config& c) {
  constexpr auto key = "model_store.models";
  const auto* array = node ? node->as_array() : nullptr;
  if (!node)
    return {};
  if (!array || array->size() > limits::models_max)
    return bad_key(origin, key, "{} must be at most {} tables: [[{}]]", key, limits::models_max,
                   key);
  for (std::size_t i = 0; i < array->size(); ++i) {
    const auto at = fmt::format("{}[{}]", key, i);
    const auto* table = array->get(i)->as_table();
    if (!table)
      return bad_key(origin, at, "{} must be a table", at);
    auto one = read_archive_settings(table, at, origin);
    if (!one)
      return one.error();
    for (const auto& other : c.models)
      if (other.model == one->model && other.version == one->version)
        return bad_key(origin, at + ".name", "{}.name: '{}' has settings already", at, one->model);
    c.models.push_back(*std::move(one));
  }
  return {};
}

result<void> read_store(const toml::node* node, const std::string& origin, cluster_config& config) {
  if (!node)
    return {};
  if (!node->is_table())
    return fail_param(errc::bad_config, "model_store",
                      "{}: model_store must be a table: [model_store]", origin);
  constexpr auto seconds_max = archive_seconds_max;
  store_config c;
  std::string path;
  toml_section s(node->as_table(), "model_store", origin);
  s.read("path", path);
  s.read("load_models", c.load_models);
  s.read("allowed_urls", c.allowed_urls);
  s.read("install_py_dep_per_model", c.install_py_dep_per_model);
  s.read("download_timeout", c.download_timeout, 1, seconds_max);
  s.read("install_timeout", c.install_timeout, 1, seconds_max);
  s.read("default_workers_per_model", c.default_workers_per_model, 0, workers_of_cluster_max);
  s.read("job_queue_size", c.job_queue_size, 1, worker_queued_max);
  s.read("default_response_timeout", c.default_response_timeout, 1, seconds_max);
  s.read("default_startup_timeout", c.default_startup_timeout, 1, seconds_max);
  const auto* archives = s.take("models");
  if (auto ok = s.finish(); !ok)
    return ok;
  if (auto ok = read_archives(archives, origin, c); !ok)
    return ok;
  if (path.empty())
    return bad_value(origin, "model_store.path", "is missing: the directory of the archives");
  c.path = path;
  for (const auto& m : c.load_models)
    if (!is_store_load(m))
      return bad_value(
          origin, "model_store.load_models",
          "has '{}': use \"all\", \"NAME.mar\", \"MODEL=NAME.mar\" or a URL for NAME.mar",
          m.substr(0, 256));
  for (const auto& pattern : c.allowed_urls)
    if (auto ok = text::check_pattern(pattern); !ok)
      return bad_value(origin, "model_store.allowed_urls",
                       "has '{}', which is no regular expression: {}", pattern.substr(0, 256),
                       ok.error().message);
  config.store = std::move(c);
  return {};
}

} // namespace

std::string_view name_of(model_control mode) noexcept {
  return std::find_if(std::begin(controls), std::end(controls),
                      [&](const control_name& c) { return c.means == mode; })
      ->name;
}

bool is_archive_name(std::string_view text) noexcept {
  return is_name(text) && text.front() != '.';
}

store_load read_store_load(std::string_view text) noexcept {
  const auto equals = text.find('=');
  if (equals == text.npos || is_archive_url(text)) // a URL may contain '='
    return {"", text};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

bool is_store_load(std::string_view text) noexcept {
  const auto parsed = read_store_load(text);
  const bool is_url =
      is_archive_url(parsed.archive) && parsed.archive.size() <= archive_url_bytes_max;
  return (is_url || is_archive_name(parsed.archive)) &&
         (parsed.archive.size() == text.size() || is_name(parsed.model));
}

result<void> read_changing_models(const toml::node* repository, const toml::node* store,
                                  const std::string& origin, cluster_config& config) {
  auto ok = read_repository(repository, origin, config);
  return ok ? read_store(store, origin, config) : ok;
}

} // namespace baton::cluster
