#include "cluster/config/readers/config_checks.hpp"

#include <algorithm>
#include <set>

namespace baton::cluster {

bool is_alias(std::string_view text) noexcept {
  constexpr std::size_t bytes_max = 128;
  return !text.empty() && text.size() <= bytes_max &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return is_name(std::string_view(&c, 1)) || c == '.' || c == '/' || c == ':' ||
                  c == '@' || c == '+';
         });
}

result<void> check_aliases(const std::string& origin, const cluster_config& config,
                           const std::string& path) {
  std::set<std::string, std::less<>> names;
  for (const auto& m : config.models)
    names.insert(m.name);
  for (const auto& w : config.workers)
    names.insert(w.name);
  for (const auto& alias : config.model.aliases) { // of the first model
    if (!is_alias(alias))
      return fail_param(errc::bad_config, path,
                        "{}: {}: '{}' must be 1 to 128 of [A-Za-z0-9._-/:@+]", origin, path, alias);
    if (!names.insert(alias).second)
      return fail_param(errc::bad_config, path, "{}: {}: two models are named '{}'", origin, path,
                        alias);
  }
  for (const auto& name : config.gateway.placeholder_models)
    if (!is_alias(name))
      return fail_param(errc::bad_config, "gateway.placeholder_models",
                        "{}: gateway.placeholder_models: '{}' must be 1 to 128 of "
                        "[A-Za-z0-9._-/:@+]",
                        origin, name);
  for (std::size_t i = 1; i < config.models.size(); ++i)
    if (!config.models[i].aliases.empty()) {
      const auto key = fmt::format("models[{}].aliases", i);
      return fail_param(errc::bad_config, key,
                        "{}: {}: only the first of several models may have aliases", origin, key);
    }
  return {};
}

result<void> check_models(const std::string& origin, const cluster_config& config, bool has_nodes) {
  if (!config.models.empty())
    return {};
  if (config.workers.empty() && !config.has_changing_models())
    return fail_param(
        errc::bad_config, "model",
        "{}: there is no [model] table: name the model to serve and its file, or worker models "
        "([[workers]], [model_repository], [model_store])",
        origin);
  if (has_nodes)
    return fail_param(errc::bad_config, "nodes",
                      "{}: there is no [model] for the devices of [[nodes]]: worker models run "
                      "on the machine of `cluster up`",
                      origin);
  if (config.is_over_network())
    return fail_param(errc::bad_config, "cluster.host",
                      "{}: cluster.host lets machines join to compute a [model], and there is none",
                      origin);
  return {};
}

} // namespace baton::cluster
