#include "cluster/membership/membership.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <tuple>

namespace baton::cluster {
namespace {

const node_config* find(const cluster_config& config, const std::string& name) {
  const auto it = std::find_if(config.nodes.begin(), config.nodes.end(),
                               [&](const node_config& n) { return n.name == name; });
  return it == config.nodes.end() ? nullptr : &*it;
}

// Ignores the position in the file.
bool is_same(node_config a, node_config b) {
  a.agent_index = b.agent_index = 0;
  return a == b;
}

// "" if they are equal.
std::string different_section(const cluster_config& a, const cluster_config& b) {
  const auto own = [](const cluster_config& c) {
    return std::tie(c.name, c.run_dir, c.shutdown_timeout, c.node_timeout, c.network);
  };
  if (own(a) != own(b))
    return "[cluster]";
  if (a.models != b.models)
    return a.models.size() > 1 || b.models.size() > 1 ? "[[models]]" : "[model]";
  if (a.workers != b.workers)
    return "[[workers]]";
  if (a.repository != b.repository)
    return "[model_repository]";
  if (a.store != b.store)
    return "[model_store]";
  return a.gateway == b.gateway ? "" : "[gateway]";
}

// A node that had an index already is returning: pipeline_parallel_size counted it before.
result<void> check_new(const node_config& n, bool was_there) {
  const auto refuse = [&](std::string_view why) {
    return fail(errc::conflict, "node {} is new and {}", n.name, why);
  };
  if (!n.is_elsewhere)
    return refuse("on the machine of `cluster up`, whose devices are in use: it can join with the "
                  "next `cluster up`");
  if (!n.waits && !was_there)
    return refuse("does not wait: write waits = true in its [[nodes]] table, so that "
                  "model.pipeline_parallel_size keeps its meaning");
  return {};
}

} // namespace

result<std::set<std::string>> assign_agent_indices(membership& members, cluster_config& config) {
  std::set<std::string> newcomers;
  std::uint32_t next = 0;
  for (const auto& [name, agent_index] : members.agent_indices)
    next = std::max(next, agent_index + 1);
  for (auto& n : config.nodes) {
    const auto [at, is_new] = members.agent_indices.emplace(n.name, next);
    n.agent_index = at->second;
    if (is_new) {
      ++next;
      newcomers.insert(n.name);
    }
  }
  if (next > nodes_of_cluster_max)
    return fail_param(errc::bad_config, "nodes",
                      "the cluster has or had {} nodes, at most {} are possible", next,
                      nodes_of_cluster_max);
  std::erase_if(config.nodes,
                [&](const node_config& n) { return members.removed.contains(n.name); });
  return newcomers;
}

result<void> check_grown(const cluster_config& running, const cluster_config& fresh,
                         const membership& members) {
  if (const auto section = different_section(running, fresh); !section.empty())
    return fail(errc::conflict,
                "{} of nodes.toml differs from the running cluster: it takes effect at the next "
                "`cluster up`, until then only nodes may differ",
                section);
  for (const auto& n : running.nodes) {
    const auto* now = find(fresh, n.name);
    if (now == nullptr)
      return fail(errc::conflict,
                  "node {} is not in nodes.toml any more: `cluster remove-node {}` "
                  "comes first",
                  n.name, n.name);
    if (!is_same(n, *now))
      return fail(errc::conflict,
                  "node {} differs between nodes.toml and the cluster, or its devices belong to "
                  "another model",
                  n.name);
  }
  for (const auto& n : fresh.nodes)
    if (!running.has_node(n.name) && !members.removed.contains(n.name))
      if (auto ok = check_new(n, members.agent_indices.contains(n.name)); !ok)
        return ok;
  return {};
}

nlohmann::json json_of(const membership& members) {
  return {{"places", members.agent_indices}, {"removed", members.removed}};
}

membership membership_from(const nlohmann::json& j) {
  return {j.at("places").get<std::map<std::string, std::uint32_t>>(),
          j.at("removed").get<std::set<std::string>>()};
}

std::string text_of(const node_update& nodes) {
  return nlohmann::json{{"config", nodes.config}, {"members", json_of(nodes.members)}}.dump();
}

std::optional<node_update> node_update_from(std::string_view text) {
  try {
    const auto j = nlohmann::json::parse(text);
    return node_update{j.at("config").get<std::string>(), membership_from(j.at("members"))};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

} // namespace baton::cluster
