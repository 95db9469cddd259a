// The root's controller of the plan. It changes the plan on request, adds and removes nodes, and
// replaces lost machines. It persists the plan, then publishes it to heads and agents. Each
// pipeline's state is in its generation_registry, lost nodes are in its failure_detector, and
// plan.hpp decides what fits.
#pragma once

#include "cluster/membership/failure_detector.hpp"
#include "cluster/membership/generation_registry.hpp"
#include "cluster/roles/roles.hpp"
#include "runtime/schedule/retry_policy.hpp"

#include <functional>
#include <mutex>

namespace baton::cluster {

// Pause before the next attempt after a generation without the lost machines was given up. The
// back-off multiplies it; beyond the intensity the longest pause applies.
inline constexpr std::chrono::seconds retry_pause_min{15};
inline constexpr schedule::retry_intensity move_intensity{6, std::chrono::hours(1)};

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
  struct pipeline_state { // of one pipeline
    explicit pipeline_state(const cluster_context& of);

    const cluster_context* context; // for what never changes
    cluster_config view;
    generation_registry registry;
    failure_detector failures;
    std::set<std::string> handled_losses;     // lost nodes that have been handled
    std::optional<std::uint32_t> replacement; // the generation that replaces them
    std::optional<std::chrono::steady_clock::time_point> retry_at; // when to try again
    schedule::retry_policy moves{move_intensity, retry_pause_min};
    cluster_plan serving;
    std::optional<cluster_plan> coming;
  };
  struct step { // of a change
    pipeline_state* of = nullptr;
    generation next;
    cluster_plan plan;
  };

  std::uint32_t next_number() const;
  std::vector<const cluster_plan*> current_plans() const;
  result<cluster_plan> plan_of(const pipeline_state& l, const generation& next) const;
  result<void> add_step(pipeline_state& l, generation next, std::vector<step>& steps) const;
  result<std::vector<step>> plan_change(const change_nodes& order);
  result<std::vector<step>> plan_scale(const scale_model& order);
  result<std::vector<pipeline_state*>> replicas_of(const std::string& model);
  result<void> check_served(const pipeline_state& l, const std::vector<step>& steps) const;
  nodes_changed begin_steps(std::uint64_t request, result<std::vector<step>> steps,
                            const std::string& why_off);
  void replace_lost_nodes(pipeline_state& l);
  result<void> move_away_from(pipeline_state& l, const std::set<std::string>& lost,
                              const std::string& why);
  void give_up(pipeline_state& l, const std::string& why);
  void schedule_retry(pipeline_state& l);
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
  std::vector<pipeline_state> pipelines_;
  std::uint64_t version_ = 0; // counts changes of the published state
};

} // namespace baton::cluster
