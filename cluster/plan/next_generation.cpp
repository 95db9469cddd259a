#include "cluster/plan/next_generation.hpp"

#include <algorithm>

namespace baton::cluster {
namespace {

// The plan rejects left-over devices.
std::uint32_t stages_of(const cluster_config& config, const generation& which) {
  const auto devices = own_devices(config, which);
  return devices == 0 ? 0
                      : static_cast<std::uint32_t>(std::max<std::size_t>(1, devices / which.width));
}

// Whether it has devices but no stages.
bool is_switched_off(const cluster_config& config, const generation& g) {
  return g.stages == 0 && own_devices(config, g) > 0;
}

} // namespace

bool has_shards_on(const generation& which, const std::string& node) {
  return which.stages > 0 && !is_without(which, node);
}

std::size_t own_devices(const cluster_config& config, const node_config& n) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < n.devices.size(); ++i)
    count += n.owner(i) == config.pipeline ? 1 : 0;
  return count;
}

std::size_t own_devices(const cluster_config& config, const generation& which) {
  std::size_t count = 0;
  for (const auto& n : config.nodes)
    if (!is_without(which, n.name))
      count += own_devices(config, n);
  return count;
}

generation first_generation(const cluster_config& config) {
  generation first{first_number(config),
                   config.model.pipeline_parallel_size,
                   {},
                   config.model.tensor_parallel_size};
  for (const auto& n : config.nodes)
    if (n.waits)
      first.without.push_back(n.name);
  const bool waits_for_request = config.model.loads_on_demand && !config.model.is_pinned;
  if (own_devices(config, first) == 0 || waits_for_request)
    first.stages = 0;
  return first;
}

result<generation> next_generation(const cluster_config& config, const generation& now,
                                   const std::string& node, bool is_drain) {
  if (!config.has_node(node))
    return fail(errc::not_found, "there is no node {} in the cluster's nodes.toml", node);
  if (is_without(now, node) == is_drain)
    return fail(errc::conflict, "node {} {}", node,
                is_drain                       ? "has no layers already"
                : is_switched_off(config, now) ? "is of a replica that is switched off: `cluster "
                                                 "scale` switches it on"
                                               : "has layers already");
  auto next = now;
  if (is_drain)
    next.without.push_back(node);
  else
    std::erase(next.without, node);
  // A request loads a model on demand, and not a node.
  const bool stays_off =
      config.model.loads_on_demand ? now.stages == 0 : is_drain && is_switched_off(config, now);
  next.stages = stays_off ? 0 : stages_of(config, next);
  return next;
}

result<generation> next_generation_without(const cluster_config& config, const generation& now,
                                           const std::set<std::string>& nodes) {
  auto next = leave_out(now, nodes);
  next.stages = stages_of(config, next);
  if (next.stages == 0)
    return fail(errc::does_not_fit, "without node {} no device is left for the layers",
                fmt::join(nodes, ", "));
  return next;
}

result<generation> next_generation_scaled(const cluster_config& config, const generation& now,
                                          bool is_on, std::uint32_t width) {
  auto next = now;
  next.width = width;
  next.stages = is_on ? stages_of(config, next) : 0;
  if (is_on && next.stages == 0)
    return fail(errc::does_not_fit,
                "none of the nodes of a further replica of model {} has layers: `cluster add-node` "
                "gives it one, and starts it",
                config.model.name);
  return next;
}

} // namespace baton::cluster
