// Aggregates the status of all processes into that of the cluster. Publishes it to the gateways
// (for /health and the page) and answers `cluster status`. Makes no decisions.
#pragma once

#include "actors/interfaces.hpp"

#include <map>
#include <set>
#include <string>

namespace baton::cluster {

// A client's query; the answer goes to this process.
struct asked {
  process_id who;
  query_status what;
};

// The processes that should exist. The cluster's phase does not depend on those that are new and
// serve nothing yet, or are spare.
struct expected_now {
  std::vector<status> nodes; // in the state before their start
  std::set<process_id> coming;
  std::vector<pipeline_status> pipelines; // by number, without their load
  std::vector<shard_assignment> assignments;
};

// A head's report.
struct load_of {
  std::uint32_t pipeline = 0;
  load_report load;
};

// The models that are loaded on demand, by pipeline.
struct on_demand_now {
  std::map<std::uint32_t, model_loads> all;
};

} // namespace baton::cluster

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::cluster::asked)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::cluster::expected_now)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::cluster::load_of)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::cluster::on_demand_now)

namespace baton::cluster {

using status_aggregator_actor = actors::takes<status, asked, expected_now, load_of, on_demand_now,
                                              actors::peer_up, actors::peer_down, actors::tick>;

struct status_aggregator_config {
  std::string url;
  expected_now expected; // the initial value
  std::function<void(process_id, const cluster_status&)> send_to_client;
  std::function<actors::gateway_actor(process_id)> gateway;
  std::function<void(const cluster_status&)> changed; // for the terminal
};

// ready if all are; failed if one is; recovering if one went down after all were ready; else
// starting.
phase overall_phase(const std::vector<status>& nodes, bool was_ready);

struct status_aggregator_state {
  static inline const char* name = "overview";
  status_aggregator_config config;
  std::map<process_id, status> nodes;
  expected_now expected;
  std::vector<process_id> gateways;
  std::map<std::uint32_t, load_report> loads; // by pipeline
  std::map<std::uint32_t, model_loads> on_demand;
  bool was_ready = false;
};

status_aggregator_actor::behavior_type
status_aggregator(status_aggregator_actor::stateful_pointer<status_aggregator_state> self,
                  status_aggregator_config config);

} // namespace baton::cluster
