#include "cluster/models/torchserve/torchserve_models.hpp"

#include "cluster/config/imported/imported_config.hpp"
#include "cluster/config/imported/yaml_reader.hpp"
#include "schema/limits.hpp"

namespace baton::cluster {
namespace {

using setting = std::optional<std::uint32_t>;

// TorchServe takes 0 for "not given".
setting above_0(const setting& value) {
  return value && *value > 0 ? value : std::nullopt;
}

result<archive_settings> read_archive(const std::string& model, const std::string& version,
                                      const YAML::Node& node, bool is_only_version,
                                      std::vector<std::string>& notes) {
  const auto at = fmt::format("models: {} {}", model, version);
  if (!node.IsMap())
    return fail(errc::bad_config, "{} is no object of settings", at);
  yaml_reader in(node);
  archive_settings out{.model = model, .version = version, .settings = {}};
  auto& s = out.settings;
  const auto read = [&](const char* key, std::uint32_t most) {
    return above_0(in.number(in.root(), key, most, 0));
  };
  s.workers_min = read("minWorkers", workers_of_cluster_max);
  s.batch_size = read("batchSize", limits::batch_items_max);
  s.max_batch_delay = read("maxBatchDelay", archive_seconds_max * 1000);
  s.response_timeout = read("responseTimeout", archive_seconds_max);
  s.startup_timeout = read("startupTimeout", archive_seconds_max);
  if (in.refusal())
    return fail(errc::bad_config, "{}: {}", at, in.refusal()->message);
  for (const auto& key : in.rest(in.root())) {
    if (key == "maxWorkers")
      notes.push_back(fmt::format("{}: maxWorkers is left out: clients scale up to what a cluster "
                                  "can have",
                                  at));
    else if (key == "defaultVersion" && !is_only_version)
      notes.push_back(fmt::format("{}: defaultVersion is left out: THE FIRST VERSION THAT IS "
                                  "REGISTERED IS THE DEFAULT, until a client chooses another",
                                  at));
    else if (key != "defaultVersion" && key != "marName") // load_models names the archives
      notes.push_back(fmt::format("{}: {} IS NOT KNOWN: a model of config.properties has no such "
                                  "key",
                                  at, key));
  }
  return out;
}

result<std::vector<archive_settings>> read_models(const YAML::Node& root,
                                                  std::vector<std::string>& notes) {
  if (!root.IsMap())
    return fail(errc::bad_config, "models is no object of models");
  std::vector<archive_settings> all;
  for (const auto& model : root) {
    if (!is_name(model.first.Scalar()) || !model.second.IsMap())
      return fail(errc::bad_config, "models needs names, and versions of each");
    for (const auto& version : model.second) {
      if (!is_name(version.first.Scalar()))
        return fail(errc::bad_config, "models: {}: a version needs a name", model.first.Scalar());
      if (all.size() == limits::models_max)
        return fail(errc::bad_config, "models has more than {} versions", limits::models_max);
      auto one = read_archive(model.first.Scalar(), version.first.Scalar(), version.second,
                              model.second.size() == 1, notes);
      if (!one)
        return one.error();
      all.push_back(*std::move(one));
    }
  }
  return all;
}

} // namespace

result<std::vector<archive_settings>> parse_torchserve_models(std::string_view json,
                                                              std::vector<std::string>& notes) {
  try { // the boundary to yaml-cpp, which throws; JSON is valid YAML
    return read_models(YAML::Load(std::string(json)), notes);
  } catch (const YAML::Exception& e) {
    return fail(errc::bad_config, "models is no JSON: {}", e.msg);
  }
}

std::string archive_tables(const std::vector<archive_settings>& all) {
  std::string toml;
  const auto add = [&](std::string_view key, const setting& value) {
    if (value)
      toml += fmt::format("{} = {}\n", key, *value);
  };
  for (const auto& one : all) {
    toml += fmt::format("\n[[model_store.models]]\nname = {}\nversion = {}\n",
                        toml_string(one.model), toml_string(one.version));
    add("min_workers", one.settings.workers_min);
    add("batch_size", one.settings.batch_size);
    if (one.settings.max_batch_delay)
      toml += fmt::format("max_batch_delay = {}\n", *one.settings.max_batch_delay / 1000.0);
    add("response_timeout", one.settings.response_timeout);
    add("startup_timeout", one.settings.startup_timeout);
  }
  return toml;
}

} // namespace baton::cluster
