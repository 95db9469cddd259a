// The nodes of a running cluster: those in nodes.toml at the start and those added since, without
// the removed ones. Pure.
//
//   in nodes.toml --add-node--> a node --remove-node--> removed
//                                 ^                        |
//                                 +-------- add-node ------+
//
// A node keeps its index, which determines its agent's id and port, while the cluster runs. It is
// never given to another node.
#pragma once

#include "cluster/config/config.hpp"

#include <nlohmann/json_fwd.hpp>

#include <map>
#include <set>
#include <string>

namespace baton::cluster {

struct membership {
  std::map<std::string, std::uint32_t> agent_indices; // of all nodes, including removed ones
  std::set<std::string> removed;
  friend bool operator==(const membership&, const membership&) = default;
};

// Adapts nodes.toml to the running cluster: gives every node its index, a new one the next unused,
// and drops removed nodes. Returns the names of new nodes. Errors: bad_config (more than
// nodes_of_cluster_max).
result<std::set<std::string>> assign_agent_indices(membership& members, cluster_config& config);

// Whether a running cluster can continue with `fresh`, its nodes.toml read again. Only nodes may
// differ from `running`: removed ones, and new ones that are on other machines and wait. Errors:
// conflict (names the difference).
result<void> check_grown(const cluster_config& running, const cluster_config& fresh,
                         const membership& members);

nlohmann::json json_of(const membership& members);
// Throws json::exception if the JSON has another form.
membership membership_from(const nlohmann::json& json);

// The message of the root to its agents, with the text of nodes.toml.
struct node_update {
  std::string config;
  membership members;
  friend bool operator==(const node_update&, const node_update&) = default;
};
std::string text_of(const node_update& nodes);
std::optional<node_update> node_update_from(std::string_view text);

} // namespace baton::cluster
