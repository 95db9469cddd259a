// The processes that the root should run, and their display. Pure.
#pragma once

#include "actors/supervision/supervisor.hpp"
#include "cluster/models/models_record.hpp"
#include "cluster/roles/root/plan_controller.hpp"
#include "cluster/roles/root/status_aggregator.hpp"

namespace baton::cluster {

// In start order.
std::vector<actors::child_spec> children_of(const cluster_contexts& all,
                                            const std::vector<agent_plan>& agents,
                                            const std::vector<worker_child>& workers);
// Serving processes and new shards, in the state before their start.
std::vector<status> everybody(const cluster_contexts& all, const plan_snapshot& now,
                              const std::vector<worker_child>& workers);
// Repository models that are not served, shown beside the served ones although they have no
// process.
std::vector<status> unserved(const served_models& models);
expected_now expected_of(const cluster_contexts& all, const plan_snapshot& now,
                         const std::vector<worker_child>& workers, const served_models& models);

} // namespace baton::cluster
