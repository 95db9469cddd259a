#include "cluster/roles/agent/agent_state.hpp"

#include "cluster/config/pipelines.hpp"
#include "cluster/config/readers/config_file.hpp"

#include <spdlog/spdlog.h>

namespace baton::cluster {
namespace {

// On failure new shards cannot start here, and are given up.
bool log_failure(const result<void>& ok) {
  if (!ok)
    spdlog::error("{}", ok.error().message);
  return ok.has_value();
}

} // namespace

agent_state::agent_state(const cluster_contexts& all, const agent_plan& agent)
    : all_(all), agent_(agent), is_recording_(agent.machine != root_machine),
      record_(all.base.made_with), config_(all.base.config) {
  for (const auto& context : all) {
    auto& plans = plans_[context.pipeline()];
    plans.push_back(context.plan);
    if (context.coming)
      plans.push_back(*context.coming);
  }
}

result<bool> agent_state::take(const joined& m) {
  auto known = machines_from_text(m.facts);
  const auto nodes = node_update_from(m.nodes);
  if (!known || !nodes)
    return fail(errc::invalid_value, "the root's {} are not readable", known ? "nodes" : "facts");
  auto before = std::exchange(record_.known, std::move(*known));
  if (auto ok = use(*nodes); !ok) {
    record_.known = std::move(before);
    return ok.error();
  }
  return is_recording_ && log_failure(record_keys(all_.base.dir, machine_keys::from(m.keys)));
}

result<void> agent_state::use(const node_update& nodes) {
  if (nodes == received_nodes_)
    return {};
  const auto copy = all_.base.dir.config();
  auto config = parse_config(nodes.config, copy.string());
  if (!config)
    return config.error();
  auto members = nodes.members;
  if (auto ok = assign_agent_indices(members, *config); !ok)
    return ok.error();
  if (models_of_pipelines(*config) != models_of_pipelines(config_))
    return fail(errc::bad_config, "the root's nodes.toml has other pipelines than this machine");
  received_nodes_ = nodes;
  record_.members = std::move(members);
  config_ = std::move(*config);
  if (is_recording_) {
    log_failure(all_.base.dir.write(copy.filename().string(), nodes.config));
    log_failure(record_plan(all_.base.dir, record_));
  }
  return {};
}

result<bool> agent_state::take(const generations& m) {
  const auto context = std::find_if(all_.begin(), all_.end(), [&](const cluster_context& c) {
    return c.pipeline() == m.pipeline;
  });
  if (context == all_.end())
    return false;
  if (auto ok = check_generations(m); !ok)
    return ok.error();
  const auto view = config_for(config_, m.pipeline);
  std::vector<cluster_plan> plans;
  for (const auto* g : {&m.serving, m.coming ? &*m.coming : nullptr})
    if (g != nullptr) {
      auto plan = make_plan(view, context->model, record_.known, *g);
      if (!plan)
        return plan.error();
      plans.push_back(std::move(*plan));
    }
  plans_[m.pipeline] = std::move(plans);
  record_.pipelines[m.pipeline].generations = agent_record_of(m);
  if (is_recording_)
    log_failure(record_plan(all_.base.dir, record_));
  return true;
}

std::vector<actors::child_spec> agent_state::shards() const {
  std::vector<actors::child_spec> specs;
  for (const auto& context : all_)
    for (const auto& plan : plans_.at(context.pipeline()))
      for (const auto& s : plan.shards)
        if (s.on == agent_.on)
          specs.push_back({.name = s.name,
                           .process = s.process,
                           .role = role::shard,
                           .intensity = actors::pipeline_intensity});
  return specs;
}

std::set<std::uint32_t> agent_state::serving() const {
  std::set<std::uint32_t> numbers;
  for (const auto& [pipeline, plans] : plans_)
    numbers.insert(plans.front().generation);
  return numbers;
}

} // namespace baton::cluster
