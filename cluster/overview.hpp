// The root's picture of the cluster: how every process stands, and from that how the cluster stands
// as a whole. Tells the gateways (for /health and the page) and whoever asks (`cluster status`).
// Decides nothing.
#pragma once

#include "actors/interfaces.hpp"

#include <map>
#include <string>

namespace baton::cluster {

// A client asked; the answer goes to this node.
struct asked {
  node_id who;
  query_status what;
};

} // namespace baton::cluster

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::cluster::asked)

namespace baton::cluster {

using overview_actor =
    actors::takes<status, asked, load_report, actors::peer_up, actors::peer_down, actors::tick>;

struct overview_config {
  std::string url;
  std::string model;
  std::vector<status> expected; // every process of the plan, as not started yet
  std::function<void(node_id, const cluster_status&)> send_to_client;
  std::function<actors::gateway_actor(node_id)> gateway;
  std::function<void(const cluster_status&)> changed; // for the terminal
};

// ready if all are; failed if one is; recovering if one went down after all were ready; else
// starting.
phase overall_phase(const std::vector<status>& nodes, bool was_ready);

struct overview_state {
  static inline const char* name = "overview";
  overview_config config;
  std::map<node_id, status> nodes;
  std::vector<node_id> gateways;
  std::optional<load_report> load;
  bool was_ready = false;
};

overview_actor::behavior_type overview(overview_actor::stateful_pointer<overview_state> self,
                                       overview_config config);

} // namespace baton::cluster
