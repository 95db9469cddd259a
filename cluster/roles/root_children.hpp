// Which processes the root is to run, and how they are shown. Pure.
#pragma once

#include "actors/supervisor.hpp"
#include "cluster/models/models_note.hpp"
#include "cluster/roles/overview.hpp"
#include "cluster/roles/plan_keeper.hpp"

namespace baton::cluster {

// In start order.
std::vector<actors::child_spec> children_of(const cluster_contexts& all,
                                            const std::vector<agent_plan>& agents,
                                            const std::vector<worker_child>& workers);
// Those that serve, and the shards that come; as not started yet.
std::vector<status> everybody(const cluster_contexts& all, const plan_standing& now,
                              const std::vector<worker_child>& workers);
// Models of the repository that are not served, which have no process to tell of: shown beside
// those that do.
std::vector<status> unserved(const served_models& models);
expected_now expected_of(const cluster_contexts& all, const plan_standing& now,
                         const std::vector<worker_child>& workers, const served_models& models);

} // namespace baton::cluster
