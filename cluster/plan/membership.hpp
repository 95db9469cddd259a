// Which nodes a running cluster has: those that nodes.toml named when it came up and those that it
// has named since, without those that were removed. Pure.
//
//   named in nodes.toml --add-node--> a node --remove-node--> removed
//                                       ^                        |
//                                       +-------- add-node ------+
//
// A node keeps its place (that of its agent's id and port) for as long as the cluster runs, and
// nobody else ever has it.
#pragma once

#include "cluster/config/config.hpp"

#include <nlohmann/json_fwd.hpp>

#include <map>
#include <set>
#include <string>

namespace baton::cluster {

struct membership {
  std::map<std::string, std::uint32_t> places; // of all that there ever were
  std::set<std::string> removed;
  friend bool operator==(const membership&, const membership&) = default;
};

// Makes of nodes.toml, as it was read, that of the running cluster: every node has its place, a new
// one the next that nobody has had; those that were removed are left out. The names of the new
// ones. Errors: bad_config (more than nodes_of_cluster_max).
result<std::set<std::string>> take_places(membership& members, cluster_config& config);

// Whether a running cluster can go on with `fresh`, which was read of its nodes.toml just now: it
// differs from `running` by nodes alone, and by those only that were removed, or are new, on
// other machines, and wait. Errors: conflict (what else is different).
result<void> check_grown(const cluster_config& running, const cluster_config& fresh,
                         const membership& members);

nlohmann::json json_of(const membership& members);
// Throws json::exception if it is none.
membership membership_from(const nlohmann::json& json);

// As the root tells its agents: with the text of nodes.toml.
struct told_nodes {
  std::string config;
  membership members;
  friend bool operator==(const told_nodes&, const told_nodes&) = default;
};
std::string text_of(const told_nodes& nodes);
std::optional<told_nodes> told_nodes_from(std::string_view text);

} // namespace baton::cluster
