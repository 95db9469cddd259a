#include "cluster/config/pipelines.hpp"
#include "cluster/config/readers/config_file.hpp"
#include "cluster/config/readers/config_text.hpp"
#include "cluster/config/readers/model_sampling.hpp"
#include "cluster/plan/model_identity.hpp"
#include "cluster/plan/plan_picture.hpp"
#include "cluster/plan/plan_workers.hpp"
#include "cluster/roles/roles.hpp"
#include "runtime/model/open/open_model.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

namespace baton::cluster {
namespace {

struct described_model {
  model::description description;
  std::uint64_t identity = 0;
  result<sampling_defaults> sampling;
};

// By file and expected identity.
using described_models = std::map<std::pair<std::filesystem::path, std::uint64_t>, described_model>;

// `identity`: the model's identity at the cluster's start; 0: the cluster starts now.
result<described_model> look_at_model(const model_config& m, std::uint64_t identity) {
  auto file = model::open_model(m.path);
  if (!file) {
    auto e = file.error();
    if (m.models_dir.empty())
      e.message = fmt::format("model.path: {}", e.message);
    return e;
  }
  auto found = model_identity(**file);
  if (!found)
    return found.error();
  if (identity != 0)
    if (auto ok = check_identity(**file, *found, identity); !ok)
      return ok.error();
  auto description = model::describe(**file);
  if (!description)
    return description.error();
  return described_model{std::move(*description), *found, sampling_of_file(**file)};
}

// One pipeline without what all pipelines share: notes, run directory, addresses.
struct pipeline_parts {
  cluster_config config;
  model::description model;
  cluster_plan plan;
  std::optional<cluster_plan> coming;
};

result<pipeline_parts> load_pipeline(const cluster_config& config, const machines& known,
                                     std::uint32_t pipeline, pipeline_record& record,
                                     described_models& looked_at) {
  pipeline_parts p;
  p.config = config_for(config, pipeline);
  const std::pair wanted{p.config.model.path, record.model_identity};
  auto model = looked_at.find(wanted);
  if (model == looked_at.end()) {
    auto found = look_at_model(p.config.model, wanted.second);
    if (!found)
      return found.error();
    model = looked_at.emplace(wanted, std::move(*found)).first;
  }
  record.model_identity = model->second.identity;
  p.model = model->second.description;
  if (p.config.model.generation_config == "auto") {
    const auto& sampling = model->second.sampling;
    if (!sampling)
      return sampling.error();
    p.config.model.sampling_of_files = *sampling;
  }
  if (!record.generations) {
    const auto first = first_generation(p.config);
    record.generations = recorded_generations{{first, std::nullopt, pipeline}, first.number};
  }
  auto plan = make_plan(p.config, p.model, known, record.generations->now.serving);
  if (!plan)
    return plan.error();
  p.plan = std::move(*plan);
  if (record.generations->now.coming) {
    auto next = make_plan(p.config, p.model, known, *record.generations->now.coming);
    if (!next)
      return next.error();
    p.coming = std::move(*next);
  }
  return p;
}

// Models that were found in directories and cannot be served, by their position in the
// configuration.
using unusable_models = std::map<std::uint32_t, error>;

std::uint32_t model_of(const cluster_config& config, std::uint32_t pipeline) {
  return models_of_pipelines(config).at(pipeline);
}

result<void> check_loadable(const pipeline_parts& p, const std::vector<const cluster_plan*>& before,
                            const machines& known) {
  const auto loaded = next_generation_scaled(p.config, first_generation(p.config), /*is_on=*/true,
                                             p.config.model.tensor_parallel_size);
  if (!loaded)
    return loaded.error();
  const auto plan = make_plan(p.config, p.model, known, *loaded);
  return plan ? check_fits_beside(before, *plan, known) : plan.error();
}

// Models that are loaded on demand: checks that each fits beside the others that are always loaded.
result<void> check_loadable(const std::vector<pipeline_parts>& parts,
                            const std::vector<const cluster_plan*>& before, const machines& known,
                            unusable_models& unusable) {
  for (const auto& p : parts) {
    if (!p.config.model.loads_on_demand || !p.plan.shards.empty())
      continue;
    const auto ok = check_loadable(p, before, known);
    if (!ok && p.config.model.models_dir.empty())
      return ok;
    if (!ok)
      unusable.emplace(model_of(p.config, p.config.pipeline), ok.error());
  }
  return {};
}

// Checks that all pipelines fit together, and that each model has a replica with shards.
result<void> check_together(const std::vector<pipeline_parts>& parts, const machines& known,
                            unusable_models& unusable) {
  std::vector<const cluster_plan*> before;
  for (const auto& p : parts) {
    const auto& model = p.config.model.name;
    if (p.config.model.loads_on_demand && p.plan.shards.empty())
      continue;
    if (std::none_of(parts.begin(), parts.end(), [&](const pipeline_parts& other) {
          return other.config.model.name == model && !other.plan.shards.empty();
        }))
      return fail_param(errc::bad_config, "nodes.waits",
                        "all nodes of model {} wait: one replica has to begin with its own", model);
    if (auto ok = check_fits_beside(before, p.plan, known); !ok)
      return ok;
    before.push_back(&p.plan);
  }
  return check_loadable(parts, before, known, unusable);
}

// `dir`: none means the configured one.
result<cluster_base> base_of(cluster_config config, plan_record with, std::optional<run_dir> dir,
                             std::string text) {
  auto opened = dir ? result<run_dir>(std::move(*dir)) : run_dir::open(config.run_dir);
  if (!opened)
    return opened.error();
  auto where = addresses::create(*opened, with.network);
  if (!where)
    return where.error();
  return cluster_base{std::move(config), std::move(with), *std::move(opened), *std::move(where),
                      std::move(text)};
}

} // namespace

namespace {

// Loads all persisted pipelines, or all configured ones if the cluster starts. Then it may find
// some models `unusable`, and what it returns lacks them.
result<std::vector<pipeline_parts>> load_pipelines(cluster_config& config, plan_record& with,
                                                   described_models& looked_at,
                                                   unusable_models& unusable) {
  const auto newcomers = assign_agent_indices(with.members, config);
  if (!newcomers)
    return newcomers.error();
  const bool comes_up = with.pipelines.empty();
  if (comes_up)
    for (std::uint32_t p = 0; p < models_of_pipelines(config).size(); ++p)
      with.pipelines[p];
  else // they may have been added since
    for (auto& [pipeline, record] : with.pipelines)
      if (record.generations)
        record.generations->now = leave_out(std::move(record.generations->now), *newcomers);
  const auto count = models_of_pipelines(config).size();
  if (!with.pipelines.empty() && with.pipelines.rbegin()->first >= count)
    return fail(errc::bad_config, "the recorded plan has pipeline {}, nodes.toml has {} of them",
                with.pipelines.rbegin()->first, count);
  std::vector<pipeline_parts> parts;
  for (auto& [pipeline, record] : with.pipelines) {
    auto loaded = load_pipeline(config, with.known, pipeline, record, looked_at);
    const auto of = model_of(config, pipeline);
    if (loaded)
      parts.push_back(std::move(*loaded));
    else if (comes_up && !config.models[of].models_dir.empty())
      unusable.emplace(of, loaded.error());
    else
      return loaded.error();
  }
  if (comes_up)
    if (auto ok = check_together(parts, with.known, unusable); !ok)
      return ok.error();
  return parts;
}

// The same, without the models of directories that cannot be served.
result<std::vector<pipeline_parts>> load_usable_pipelines(cluster_config& config,
                                                          plan_record& with) {
  described_models looked_at; // replicas share one file
  for (;;) {                  // each time fewer models are left
    auto view = config;
    auto record = with;
    unusable_models unusable;
    auto parts = load_pipelines(view, record, looked_at, unusable);
    if (!parts)
      return parts;
    if (unusable.empty()) {
      config = std::move(view);
      with = std::move(record);
      return parts;
    }
    if (auto ok = pass_over(config, unusable); !ok)
      return ok.error();
  }
}

} // namespace

result<void> check_plans(cluster_config config, plan_record with) {
  auto parts = load_usable_pipelines(config, with);
  return parts ? result<void>() : parts.error();
}

result<cluster_contexts> load_contexts(const std::filesystem::path& config_file, plan_record with,
                                       std::optional<run_dir> dir) {
  const auto text = text_of_config(config_file);
  if (!text)
    return text.error();
  auto config = parse_config(*text, config_file.string());
  if (!config)
    return config.error();
  auto parts = load_usable_pipelines(*config, with);
  if (!parts)
    return parts.error();
  auto named = with_files(*text, config_file.string(), *config);
  if (!named)
    return named.error();
  auto base = base_of(*std::move(config), std::move(with), std::move(dir), *std::move(named));
  if (!base)
    return base.error();
  cluster_contexts all{*std::move(base), {}};
  for (auto& p : *parts)
    all.pipelines.push_back(
        {{std::move(p.config), all.base.made_with, all.base.dir, all.base.where, /*text=*/{}},
         std::move(p.model),
         std::move(p.plan),
         std::move(p.coming)});
  return all;
}

plan_record with_this_machine() {
  return {.build = {},
          .members = {},
          .known = {{root_machine, facts_of_this_machine()}},
          .network = std::nullopt,
          .pipelines = {}};
}

namespace {

struct recorded_cluster {
  run_dir dir;
  plan_record plan;
};

result<recorded_cluster> read_beside(const std::filesystem::path& config_copy) {
  auto dir = run_dir::open(config_copy.parent_path());
  if (!dir)
    return dir.error();
  auto with = recorded_plan(*dir);
  if (!with)
    return fail(errc::io_failed, "{}: no plan is noted there", dir->path().string());
  return recorded_cluster{*std::move(dir), *std::move(with)};
}

// `pipeline`: none means all persisted ones.
result<cluster_contexts> load_recorded(const std::filesystem::path& config_copy,
                                       std::optional<std::uint32_t> pipeline) {
  auto found = read_beside(config_copy);
  if (!found)
    return found.error();
  auto& with = found->plan;
  if (pipeline)
    std::erase_if(with.pipelines, [&](const auto& p) { return p.first != *pipeline; });
  if (with.pipelines.empty())
    return fail(errc::not_found, "{}: no such pipeline is noted there", found->dir.path().string());
  return load_contexts(config_copy, std::move(with), std::move(found->dir));
}

std::vector<expected_speed> of(const expected_speeds& expected, std::size_t pipeline) {
  return pipeline < expected.size() ? expected[pipeline] : std::vector<expected_speed>();
}

} // namespace

result<cluster_contexts> load_contexts_of_child(const std::filesystem::path& config_copy) {
  return load_recorded(config_copy, std::nullopt);
}

result<cluster_context> load_context_of_child(const std::filesystem::path& config_copy,
                                              std::uint32_t pipeline) {
  auto all = load_recorded(config_copy, pipeline);
  if (!all)
    return all.error();
  return std::move(all->pipelines.front());
}

result<cluster_base> load_base_of_child(const std::filesystem::path& config_copy) {
  auto found = read_beside(config_copy);
  if (!found)
    return found.error();
  const auto text = read_config_file(config_copy);
  if (!text)
    return text.error();
  auto config = parse_config(*text, config_copy.string());
  if (!config)
    return config.error();
  if (auto ok = assign_agent_indices(found->plan.members, *config); !ok)
    return ok.error();
  return base_of(*std::move(config), std::move(found->plan), std::move(found->dir), *text);
}

std::string plan_table(const cluster_contexts& all, const expected_speeds& expected) {
  auto text = all.size() == 0
                  ? fmt::format("{}: no LLM, worker models alone\n", all.base.config.name)
                  : std::string();
  for (std::size_t i = 0; i < all.size(); ++i)
    text += plan_table(all[i].config, all[i].model, all[i].plan, of(expected, i),
                       all[i].made_with.known);
  text += workers_text(all.base.config, gpus_for_workers(all.base.config, devices_here()));
  return text + machines_text(all.base.made_with.known);
}

std::string plan_json(const cluster_contexts& all, const expected_speeds& expected) {
  auto pipelines = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < all.size(); ++i)
    pipelines.push_back(plan_json(all[i].config, all[i].model, all[i].plan, of(expected, i),
                                  all[i].made_with.known));
  auto plan = all.size() == 1 ? std::move(pipelines[0])
                              : nlohmann::ordered_json{{"pipelines", std::move(pipelines)}};
  add_workers(plan, all.base.config, gpus_for_workers(all.base.config, devices_here()));
  for (const auto& each : all.base.config.passed_over)
    plan["passed_over"].push_back({{"path", each.path.string()}, {"reason", each.why}});
  return plan.dump(2) + "\n";
}

} // namespace baton::cluster
