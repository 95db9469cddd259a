// The root's controller of the plan. It changes the plan on request, adds and removes nodes, and
// replaces lost machines. It persists the plan, then publishes it to heads and agents. Each
// pipeline's state is in its generation_registry, lost nodes are in its failure_detector, and
// plan.hpp decides what fits.
#pragma once

#include "cluster/roles/root/plan_steps.hpp"

#include <functional>
#include <mutex>

namespace baton::cluster {

// The current state of a pipeline, for display.
struct pipeline_snapshot {
  std::string model;
  cluster_plan serving;
  std::optional<cluster_plan> coming;
  std::string change; // progress of the change, or outcome of the last one
};
struct plan_snapshot {
  std::vector<agent_plan> agents;
  std::vector<pipeline_snapshot> pipelines; // by number
};

// The state that the root publishes to heads and agents.
struct plan_update {
  std::vector<agent_plan> agents; // of the existing nodes
  node_update nodes;
  machines known; // those that have joined
  std::vector<generations> shards;
};

// Thread-safe.
class plan_controller {
public:
  struct outside {                                     // both may call back
    std::function<void(const plan_update&)> publish;   // to heads and agents
    std::function<void(const plan_snapshot&)> changed; // called before `publish`
  };
  // For all pipelines. `all` must outlive this object.
  plan_controller(const cluster_contexts& all, outside to);

  nodes_changed change(const change_nodes& order);
  nodes_changed scale(const scale_model& order);
  // Loads or unloads a model that is loaded on demand. Errors: as plan_steps::switch_pipeline.
  result<void> switch_model(std::uint32_t pipeline, bool is_on);
  // Adds the nodes that nodes.toml (`text`) names by now, including `node`, without layers.
  // Errors: not_found (`node` is not in the file), conflict (check_grown), bad_config (too many),
  // io_failed.
  result<std::vector<node_config>> admit(const std::string& node, const std::string& text,
                                         cluster_config fresh);
  bool has_node(const std::string& node) const;
  // Removes a node from the cluster. Errors: not_found, conflict (it has layers), bad_config (it is
  // on this machine).
  result<void> remove(const std::string& node);
  // A machine has joined that was absent when the cluster started.
  void on_joined(const std::string& node, const machine_facts& facts);
  void on_serves(std::uint32_t generation);
  // The link to this agent is up or down.
  void on_agent(process_id agent, bool is_here);
  // Whether the head of that pipeline has an open epoch, as far as is known.
  void on_serving(std::uint32_t pipeline, bool is_serving);
  // An agent reports that a child exceeded its restart intensity. If the child belongs to a new
  // generation, that generation is given up.
  void on_failed(const status& child);
  void tick();

  plan_snapshot snapshot() const;
  plan_update latest_update() const;
  // Sends the current state to a new peer. A concurrent change is sent after it.
  void publish(const std::function<void(const plan_update&)>& one) const;

private:
  nodes_changed begin_steps(std::uint64_t request, result<std::vector<plan_step>> steps,
                            const std::string& why_off);
  void replace_lost_nodes(controlled_pipeline& l);
  result<void> move_away_from(controlled_pipeline& l, const std::set<std::string>& lost,
                              const std::string& why);
  void give_up(controlled_pipeline& l, const std::string& why);
  void schedule_retry(controlled_pipeline& l);
  result<void> save();
  result<std::vector<node_config>> add_nodes(const std::string& node, const std::string& text,
                                             cluster_config fresh);
  result<void> drop_node(const std::string& node);
  void use_nodes(cluster_config now);
  plan_update make_update() const;
  plan_snapshot make_snapshot() const;
  void save_change();
  void change_and_publish(const std::function<void()>& change);
  void publish();

  outside to_;
  mutable std::mutex mutex_;
  plan_record record_;
  run_dir dir_;
  std::string text_;      // of nodes.toml
  cluster_config config_; // its nodes are the current ones
  std::vector<agent_plan> agents_;
  std::vector<controlled_pipeline> pipelines_;
  plan_steps steps_{pipelines_, record_.known};
  std::uint64_t version_ = 0; // counts changes of the published state
};

} // namespace baton::cluster
