#include "cluster/roles/root/root_children.hpp"

#include "cluster/roles/gateway/gateway_files.hpp"

#include <algorithm>

namespace baton::cluster {
namespace {

// Hanging shards of an agent to wait for, over two generations. The bound keeps the stop within the
// 60 s for which `cluster down` waits.
constexpr std::uint32_t hanging_shards_max = 10;

// Process ids to show models without processes; no process has these numbers.
constexpr std::uint32_t first_shown = 1u << 20;
constexpr std::size_t unserved_max = 256; // shown in a status; the repository index lists all

status not_started(process_id process, role r, const std::string& name) {
  return {.process = process,
          .incarnation = {},
          .role = r,
          .name = name,
          .phase = phase::starting,
          .reason = {},
          .pid = 0,
          .restarts = 0,
          .progress = 0};
}

// A remote machine without layers; it may be switched off.
bool is_spare(const plan_snapshot& now, const agent_plan& agent) {
  const auto is_placed_there = [&](const shard_plan& s) { return s.on == agent.on; };
  return agent.machine != root_machine &&
         std::none_of(now.pipelines.begin(), now.pipelines.end(), [&](const pipeline_snapshot& p) {
           return std::any_of(p.serving.shards.begin(), p.serving.shards.end(), is_placed_there);
         });
}

void add_assignments(const cluster_plan& plan, std::vector<shard_assignment>& to) {
  for (const auto& s : plan.shards)
    to.push_back({.process = s.process,
                  .pipeline = plan.pipeline,
                  .generation = plan.generation,
                  .stage = s.stage,
                  .rank = s.rank,
                  .first_layer = s.layers.first,
                  .layers = s.layers.count,
                  .on = s.on,
                  .device = s.device});
}

} // namespace

std::vector<status> unserved(const served_models& models) {
  std::vector<status> out;
  for (const auto& m : models.all)
    if (m.is_of_repository && m.state == model_state::unavailable && m.revision != 0 &&
        out.size() < unserved_max) {
      const auto name = fmt::format("model-{}{}", m.name, m.version.empty() ? "" : "-" + m.version);
      const auto number = static_cast<std::uint32_t>(m.revision % first_shown);
      out.push_back({.process = process_ids::worker(first_shown + number),
                     .incarnation = {},
                     .role = role::worker,
                     .name = name,
                     .phase = phase::failed,
                     .reason = m.reason,
                     .pid = 0,
                     .restarts = 0,
                     .progress = 0});
    }
  return out;
}

std::vector<actors::child_spec> children_of(const cluster_contexts& all,
                                            const std::vector<agent_plan>& agents,
                                            const std::vector<worker_child>& workers) {
  std::vector<actors::child_spec> specs;
  for (const auto& c : all)
    specs.push_back({.name = name_of_head(c).name,
                     .process = process_ids::head(c.pipeline()),
                     .role = role::head,
                     .intensity = actors::head_intensity});
  for (std::uint32_t i = 0; i < all.base.config.gateway.processes; ++i)
    specs.push_back({.name = name_of_gateway(i),
                     .process = process_ids::gateway(i),
                     .role = role::gateway,
                     .intensity = actors::gateway_intensity});
  for (const auto& a : agents)
    specs.push_back({.name = a.name,
                     .process = a.process,
                     .role = role::agent,
                     .intensity = actors::agent_intensity,
                     .is_elsewhere = a.machine != root_machine,
                     .children = std::min(2 * a.devices, hanging_shards_max)});
  for (const auto& w : workers)
    specs.push_back({.name = w.name,
                     .process = w.process,
                     .role = role::worker,
                     .intensity = actors::worker_intensity,
                     .is_elsewhere = false,
                     .children = 0,
                     .startup_max = w.startup_timeout,
                     .retire_max = all.base.config.shutdown_timeout});
  return specs;
}

std::vector<status> everybody(const cluster_contexts& all, const plan_snapshot& now,
                              const std::vector<worker_child>& workers) {
  std::vector<status> nodes;
  for (const auto& c : children_of(all, now.agents, workers))
    nodes.push_back(not_started(c.process, c.role, c.name));
  for (const auto& p : now.pipelines)
    for (const auto& s : p.serving.shards)
      nodes.push_back(not_started(s.process, role::shard, s.name));
  for (const auto& p : now.pipelines)
    if (p.coming)
      for (const auto& s : p.coming->shards)
        nodes.push_back(not_started(s.process, role::shard, s.name));
  return nodes;
}

expected_now expected_of(const cluster_contexts& all, const plan_snapshot& now,
                         const std::vector<worker_child>& workers, const served_models& models) {
  expected_now e{everybody(all, now, workers), {}, {}, {}};
  for (const auto& a : now.agents)
    if (is_spare(now, a))
      e.coming.insert(a.process);
  for (const auto& w : workers) // the pipelines' models are served without them
    e.coming.insert(w.process);
  for (auto& s : unserved(models)) {
    e.coming.insert(s.process);
    e.nodes.push_back(std::move(s));
  }
  for (const auto& p : now.pipelines) {
    if (p.coming)
      for (const auto& s : p.coming->shards)
        e.coming.insert(s.process);
    e.pipelines.push_back({.model = p.model,
                           .generation = p.serving.generation,
                           .coming_generation = p.coming ? p.coming->generation : 0,
                           .change = p.change,
                           .load = std::nullopt});
    add_assignments(p.serving, e.assignments);
    if (p.coming)
      add_assignments(*p.coming, e.assignments);
  }
  return e;
}

} // namespace baton::cluster
