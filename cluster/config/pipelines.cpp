#include "cluster/config/pipelines.hpp"

#include "schema/ensure.hpp"

#include <algorithm>

namespace baton::cluster {
namespace {

constexpr auto unassigned = std::numeric_limits<std::uint32_t>::max();

bool may_use(const model_config& m, const node_config& n) {
  return m.nodes.empty() || std::find(m.nodes.begin(), m.nodes.end(), n.name) != m.nodes.end();
}

result<void> check_names(const cluster_config& config) {
  for (const auto& m : config.models)
    for (const auto& name : m.nodes)
      if (!config.has_node(name))
        return fail_param(errc::bad_config, "models.nodes",
                          "model {} names node {}, and there is no such [[nodes]] table", m.name,
                          name);
  return {};
}

std::size_t devices_of(const node_config& n, std::uint32_t owner) {
  return static_cast<std::size_t>(std::count(n.owners.begin(), n.owners.end(), owner));
}

std::size_t free_devices(const node_config& n) {
  return devices_of(n, unassigned);
}

// On all nodes that the model may use.
std::size_t devices_of(const cluster_config& config, const model_config& m, std::uint32_t owner) {
  std::size_t count = 0;
  for (const auto& n : config.nodes)
    if (may_use(m, n))
      count += devices_of(n, owner);
  return count;
}

// Takes devices of waiting or of other nodes in multiples of `at_a_time` per node, or none at all.
bool take_devices(cluster_config& config, const model_config& m, std::uint32_t pipeline, bool waits,
                  std::uint32_t at_a_time) {
  auto missing = devices_of_replica(m);
  auto nodes = config.nodes;
  for (auto& n : nodes)
    while (n.waits == waits && may_use(m, n) && missing > 0 && free_devices(n) >= at_a_time)
      for (std::uint32_t i = 0; i < at_a_time; ++i, --missing)
        *std::find(n.owners.begin(), n.owners.end(), unassigned) = pipeline;
  if (missing == 0)
    config.nodes = std::move(nodes);
  return missing == 0;
}

result<void> assign_replica(cluster_config& config, const model_config& m, std::uint32_t pipeline) {
  // Prefers ranks of a stage on one node: they share memory, while the bus between nodes is slow.
  for (const auto at_a_time : {m.tensor_parallel_size, 1u})
    for (const bool waits : {false, true})
      if (take_devices(config, m, pipeline, waits, at_a_time))
        return {};
  const auto left = devices_of(config, m, unassigned);
  return fail_param(errc::bad_config, "models.replicas",
                    "a replica of model {} takes {} devices ({} stages of {} ranks), and its "
                    "nodes have {} for it",
                    m.name, devices_of_replica(m), m.pipeline_parallel_size, m.tensor_parallel_size,
                    left);
}

// Gives the remaining devices to the models that are loaded on demand. Errors: bad_config.
result<void> share_devices(cluster_config& config) {
  for (auto& n : config.nodes)
    std::replace(n.owners.begin(), n.owners.end(), unassigned, shared_device);
  for (const auto& m : config.models) {
    const auto shared = devices_of(config, m, shared_device);
    if (m.loads_on_demand && shared < devices_of_replica(m))
      return fail_param(errc::bad_config, "nodes.devices",
                        "model {} is loaded on demand to {} devices ({} stages of {} ranks), and "
                        "the other models leave {} for it",
                        m.name, devices_of_replica(m), m.pipeline_parallel_size,
                        m.tensor_parallel_size, shared);
  }
  return {};
}

// The first shared devices that the view's model may use become its own, unless they are already.
void take_shared(cluster_config& view) {
  const auto own = devices_of(view, view.model, view.pipeline);
  auto missing = devices_of_replica(view.model) - std::min(devices_of_replica(view.model), own);
  for (const bool waits : {false, true})
    for (auto& n : view.nodes)
      for (auto& owner : n.owners)
        if (n.waits == waits && may_use(view.model, n) && owner == shared_device && missing > 0) {
          owner = view.pipeline;
          --missing;
        }
}

void assign_waiting(cluster_config& config, const std::vector<std::uint32_t>& models) {
  std::vector<std::size_t> given(models.size());
  for (auto& n : config.nodes) {
    if (!n.waits || free_devices(n) == 0)
      continue;
    auto to = unassigned;
    for (std::uint32_t p = 0; p < models.size(); ++p)
      if (may_use(config.models[models[p]], n) && (to == unassigned || given[p] < given[to]))
        to = p;
    if (to == unassigned)
      continue;
    ++given[to];
    std::replace(n.owners.begin(), n.owners.end(), unassigned, to);
  }
}

} // namespace

std::vector<std::uint32_t> models_of_pipelines(const cluster_config& config) {
  std::vector<std::uint32_t> models;
  for (std::uint32_t m = 0; m < config.models.size(); ++m)
    models.insert(models.end(), config.models[m].replicas, m);
  return models;
}

result<void> assign_devices(cluster_config& config) {
  if (auto ok = check_names(config); !ok)
    return ok;
  const auto models = models_of_pipelines(config);
  const bool is_one = models.size() == 1 && config.models[0].nodes.empty();
  for (auto& n : config.nodes)
    n.owners.assign(n.devices.size(), is_one ? 0 : unassigned);
  if (is_one) // the plan reports a wrong number of devices
    return {};
  for (const bool names_nodes : {true, false})
    for (std::uint32_t p = 0; p < models.size(); ++p)
      if (const auto& m = config.models[models[p]];
          m.nodes.empty() != names_nodes && !m.loads_on_demand)
        if (auto ok = assign_replica(config, m, p); !ok)
          return ok;
  if (!on_demand_pipelines(config).empty())
    return share_devices(config);
  assign_waiting(config, models);
  for (const auto& n : config.nodes)
    if (free_devices(n) > 0)
      return fail_param(errc::bad_config, "nodes.devices",
                        "node {} has {} devices that no replica takes: raise replicas or "
                        "pipeline_parallel_size, or leave them out",
                        n.name, free_devices(n));
  return {};
}

node_config default_node(const cluster_config& config) {
  std::size_t devices = 0, shared = 0;
  for (const auto& m : config.models)
    if (m.loads_on_demand)
      shared = std::max(shared, devices_of_replica(m));
    else
      devices += std::size_t{m.replicas} * devices_of_replica(m);
  node_config local;
  local.name = "local";
  local.devices.assign(devices + shared, "cpu");
  return local;
}

result<void> pass_over(cluster_config& config, const std::map<std::uint32_t, error>& unusable) {
  std::vector<model_config> left;
  for (std::uint32_t i = 0; i < config.models.size(); ++i)
    if (const auto at = unusable.find(i); at != unusable.end())
      config.passed_over.push_back({config.models[i].path, at->second.message});
    else
      left.push_back(config.models[i]);
  if (left.empty())
    return fail_param(errc::bad_config, "model.models_dir",
                      "model.models_dir: no model there can be served: {}: {}",
                      config.passed_over.back().path.string(), config.passed_over.back().why);
  config.models = std::move(left);
  config.model = config.models.front();
  if (config.has_default_layout)
    config.nodes = {default_node(config)};
  return assign_devices(config);
}

cluster_config config_for(const cluster_config& config, std::uint32_t pipeline) {
  auto view = config;
  view.pipeline = pipeline;
  view.model = config.models.at(models_of_pipelines(config).at(pipeline));
  if (view.model.loads_on_demand)
    take_shared(view);
  return view;
}

std::vector<std::uint32_t> on_demand_pipelines(const cluster_config& config) {
  std::vector<std::uint32_t> all;
  const auto models = models_of_pipelines(config);
  for (std::uint32_t p = 0; p < models.size(); ++p)
    if (config.models[models[p]].loads_on_demand)
      all.push_back(p);
  return all;
}

std::size_t loaded_at_once(const cluster_config& config) {
  return std::min<std::size_t>(on_demand_pipelines(config).size(), config.max_loaded_models);
}

bool has_devices_on(const cluster_config& config, std::uint32_t pipeline, std::string_view node) {
  const auto has = [&](const cluster_config& view) {
    return std::any_of(view.nodes.begin(), view.nodes.end(), [&](const node_config& n) {
      return n.name == node &&
             std::find(n.owners.begin(), n.owners.end(), pipeline) != n.owners.end();
    });
  };
  const auto models = models_of_pipelines(config);
  const bool may_share =
      pipeline < models.size() && config.models[models[pipeline]].loads_on_demand;
  return may_share ? has(config_for(config, pipeline)) : has(config);
}

} // namespace baton::cluster
