#include "cluster/model_identity.hpp"
#include "cluster/roles.hpp"

namespace baton::cluster {

result<cluster_context> load_context(const std::filesystem::path& config_file, plan_note with,
                                     std::optional<run_dir> dir) {
  auto config = load_config(config_file);
  if (!config)
    return config.error();
  auto file = model::open_model(config->model.path);
  if (!file) {
    auto e = file.error();
    e.message = fmt::format("model.path: {}", e.message);
    return e;
  }
  auto found = model_identity(**file);
  if (!found)
    return found.error();
  if (with.model_identity != 0)
    if (auto ok = check_identity(**file, *found, with.model_identity); !ok)
      return ok.error();
  with.model_identity = *found;
  auto description = model::describe(**file);
  if (!description)
    return description.error();
  if (!with.generations)
    with.generations = noted_generations{{first_generation(*config), std::nullopt}, 0};
  auto plan = make_plan(*config, *description, with.known, with.generations->now.serving);
  if (!plan)
    return plan.error();
  std::optional<cluster_plan> coming;
  if (with.generations->now.coming) {
    auto next = make_plan(*config, *description, with.known, *with.generations->now.coming);
    if (!next)
      return next.error();
    coming = std::move(*next);
  }
  auto opened = dir ? result<run_dir>(std::move(*dir)) : run_dir::open(config->run_dir);
  if (!opened)
    return opened.error();
  auto where = addresses::create(*opened, with.network);
  if (!where)
    return where.error();
  return cluster_context{std::move(*config), std::move(*description), std::move(*plan),
                         std::move(coming),  std::move(with),         std::move(*opened),
                         std::move(*where)};
}

plan_note with_this_machine() {
  return {{}, 0, {{root_machine, facts_of_this_machine()}}, std::nullopt, std::nullopt};
}

result<cluster_context> load_context_of_child(const std::filesystem::path& config_copy) {
  auto dir = run_dir::open(config_copy.parent_path());
  if (!dir)
    return dir.error();
  auto with = noted_plan(*dir);
  if (!with)
    return fail(errc::io_failed, "{}: no plan is noted there", dir->path().string());
  return load_context(config_copy, std::move(*with), std::move(*dir));
}

} // namespace baton::cluster
