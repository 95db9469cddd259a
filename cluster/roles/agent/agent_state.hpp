// An agent's view of the cluster: nodes, facts and keys of the machines, and the generations of the
// shards here, as the root sends them. On a machine of its own it is persisted, for processes that
// start there; on the root's machine the root has persisted it already. Broken messages change
// nothing.
#pragma once

#include "actors/supervision/supervisor.hpp"
#include "cluster/roles/roles.hpp"

#include <map>
#include <set>
#include <vector>

namespace baton::cluster {

class agent_state {
public:
  // Begins with the generations that the contexts were loaded with. Both must outlive this object.
  agent_state(const cluster_contexts& all, const agent_plan& agent);

  // True if it was persisted here: the root waits for the confirmation. Errors: invalid_value
  // (another form), bad_config (nodes.toml cannot be used, or has other pipelines).
  result<bool> take(const joined& m);
  // False: the pipeline has no devices on this machine. Errors: as check_generations,
  // make_plan.
  result<bool> take(const generations& m);

  const std::string& name() const { return agent_.name; } // the agent's
  // The shards of all generations that the root last published.
  std::vector<actors::child_spec> shards() const;
  // The plans of these generations of one pipeline, the serving one first.
  const std::vector<cluster_plan>& plans(std::uint32_t pipeline) const {
    return plans_.at(pipeline);
  }
  // The numbers of the generations that serve.
  std::set<std::uint32_t> serving() const;

private:
  result<void> use(const node_update& nodes);

  const cluster_contexts& all_;
  const agent_plan& agent_;
  const bool is_recording_;
  plan_record record_;
  node_update received_nodes_;
  cluster_config config_;                                    // as the root published it
  std::map<std::uint32_t, std::vector<cluster_plan>> plans_; // by pipeline
};

} // namespace baton::cluster
