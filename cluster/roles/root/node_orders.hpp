// The operator's orders for nodes: added, drained and removed while the cluster runs.
#pragma once

#include "cluster/join/join_server.hpp"
#include "cluster/roles/root/plan_controller.hpp"

#include <filesystem>

namespace baton::cluster {

class node_orders {
public:
  // `plan` and `join` must outlive this object. `join` is null if all nodes are on this machine.
  // `original`: the operator's nodes.toml.
  node_orders(plan_controller& plan, join_server* join, std::filesystem::path original)
      : plan_(plan), join_(join), original_(std::move(original)) {}

  // Adds a node's layers, or drains them. A node that the cluster does not have may be in
  // nodes.toml by now.
  nodes_changed change(const change_nodes& order);
  // The node's agent is informed and exits; until then its key is trusted.
  nodes_changed remove(const remove_node& order);

private:
  result<void> admit(const std::string& node);

  plan_controller& plan_;
  join_server* join_;
  std::filesystem::path original_;
};

} // namespace baton::cluster
