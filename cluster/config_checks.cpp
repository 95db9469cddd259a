#include "cluster/config_checks.hpp"

#include <algorithm>
#include <set>

namespace baton::cluster {
namespace {

error bad(const std::string& origin, std::string_view key, std::string text) {
  return error{errc::bad_config, fmt::format("{}: {}", origin, text), std::string(key)};
}

// Names as people write them for models elsewhere: "Qwen/Qwen2.5-1.5B-Instruct", "gpt-4o:latest".
bool is_alias(std::string_view text) noexcept {
  constexpr std::size_t bytes_max = 128;
  return !text.empty() && text.size() <= bytes_max &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return is_name(std::string_view(&c, 1)) || c == '.' || c == '/' || c == ':' ||
                  c == '@' || c == '+';
         });
}

} // namespace

result<void> check_aliases(const std::string& origin, const cluster_config& config,
                           const std::string& path) {
  std::set<std::string, std::less<>> names;
  for (const auto& m : config.models)
    names.insert(m.name);
  for (const auto& w : config.workers)
    names.insert(w.name);
  for (const auto& alias : config.model.aliases) { // of the first
    if (!is_alias(alias))
      return bad(origin, path,
                 fmt::format("{}: '{}' must be 1 to 128 of [A-Za-z0-9._-/:@+]", path, alias));
    if (!names.insert(alias).second)
      return bad(origin, path, fmt::format("{}: two models are named '{}'", path, alias));
  }
  for (std::size_t i = 1; i < config.models.size(); ++i)
    if (!config.models[i].aliases.empty())
      return bad(origin, fmt::format("models[{}].aliases", i),
                 fmt::format("models[{}].aliases: the first of several models alone has further "
                             "names",
                             i));
  return {};
}

result<void> check_models(const std::string& origin, const cluster_config& config, bool has_nodes) {
  if (!config.models.empty())
    return {};
  if (config.workers.empty() && !config.has_changing_models())
    return bad(origin, "model",
               "there is no [model] table: name the model to serve and its file, or worker models "
               "([[workers]], [model_repository], [model_store])");
  if (has_nodes)
    return bad(origin, "nodes",
               "there is no [model] that the devices of [[nodes]] would compute: worker models run "
               "on the machine of `cluster up`");
  if (config.is_over_network())
    return bad(
        origin, "cluster.host",
        "cluster.host lets machines join whose devices compute a [model], and there is none");
  return {};
}

} // namespace baton::cluster
