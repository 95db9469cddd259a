// `cluster pull`, `cluster models` and `cluster rm`: models on this machine.
#include "cluster/commands/commands.hpp"
#include "cluster/commands/model_download.hpp"
#include "cluster/files/exit_status.hpp"
#include "cluster/files/json_text.hpp"
#include "cluster/files/shown_bytes.hpp"
#include "cluster/hub/known_models.hpp"
#include "cluster/hub/local_models.hpp"
#include "cluster/hub/pull.hpp"
#include "cluster/hub/removal.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>

namespace baton::cluster {
namespace {

// A served directory needs all its files.
bool is_needed_by(const served_file& served, const std::filesystem::path& file,
                  const std::vector<std::filesystem::path>& directories) {
  return served.path == file ||
         std::find(directories.begin(), directories.end(), served.path) != directories.end();
}

result<void> check_not_served(const removal& what, const hub_settings& settings) {
  std::vector<std::filesystem::path> directories;
  const hub_cache cache(settings.cache);
  for (const auto& snapshot : what.snapshots) {
    std::error_code failed;
    directories.push_back(
        std::filesystem::canonical(cache.snapshot(snapshot.repository, snapshot.commit), failed));
  }
  const auto served = served_files();
  for (const auto& file : files_of(what, settings))
    for (const auto& one : served)
      if (is_needed_by(one, file, directories))
        return fail(errc::conflict, "the running cluster {} serves it: `cluster down {}` first",
                    one.cluster, one.cluster);
  return {};
}

} // namespace

int command_pull(const std::string& reference) {
  const auto model = download_model(reference, hub_settings_here());
  if (!model)
    return refuse_start(model.error());
  std::printf("%s\n", model->path.c_str());
  return 0;
}

int command_models(bool json) {
  const auto all = local_models(hub_settings_here());
  if (json) {
    auto list = nlohmann::ordered_json::array();
    for (const auto& m : all)
      list.push_back(nlohmann::ordered_json{{"name", m.name},
                                            {"shown", m.shown},
                                            {"source", m.source},
                                            {"format", m.format},
                                            {"bytes", m.bytes},
                                            {"path", m.path.string()}});
    std::puts(json_text(list).c_str());
    return 0;
  }
  std::size_t width = 5;
  for (const auto& m : all)
    width = std::max(width, m.shown.size());
  std::printf("%-*s  %-11s  %-11s  %8s  %s\n", static_cast<int>(width), "MODEL", "SOURCE", "FORMAT",
              "SIZE", "PATH");
  for (const auto& m : all)
    std::printf("%-*s  %-11s  %-11s  %8s  %s\n", static_cast<int>(width), m.shown.c_str(),
                m.source.c_str(), m.format.c_str(), shown_bytes(m.bytes).c_str(), m.path.c_str());
  return 0;
}

int command_known_models(bool json) {
  const auto settings = hub_settings_here();
  const auto is_downloaded = [&](const known_model& m) {
    const auto reference = parse_reference(m.reference, settings.endpoint);
    return reference && cached_model(*reference, settings);
  };
  auto list = nlohmann::ordered_json::array();
  if (!json)
    std::printf("%-20s  %-10s  %s\n", "MODEL", "DOWNLOADED", "REFERENCE");
  for (const auto& m : known_models()) {
    const std::string name(m.name), reference(m.reference);
    if (json)
      list.push_back(nlohmann::ordered_json{
          {"name", name}, {"reference", reference}, {"downloaded", is_downloaded(m)}});
    else
      std::printf("%-20s  %-10s  %s\n", name.c_str(), is_downloaded(m) ? "yes" : "no",
                  reference.c_str());
  }
  if (json)
    std::puts(json_text(list).c_str());
  return 0;
}

int command_rm(const std::string& text) {
  const auto settings = hub_settings_here();
  const auto reference = parse_reference(text, settings.endpoint);
  if (!reference)
    return refuse_start(reference.error());
  const auto what = plan_removal(*reference, settings);
  if (!what)
    return refuse_start(what.error());
  if (auto ok = check_not_served(*what, settings); !ok)
    return refuse_start(ok.error());
  const auto removed = remove_model(*what, settings);
  if (!removed)
    return refuse_start(removed.error());
  std::printf("removed %zu files, %s\n", removed->links, shown_bytes(removed->bytes).c_str());
  return 0;
}

} // namespace baton::cluster
