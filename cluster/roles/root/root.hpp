// The actors of the root, the messages between them, and the order in which they end.
#pragma once

#include "actors/supervision/supervisor.hpp"
#include "cluster/join/join_server.hpp"
#include "cluster/membership/on_demand_models.hpp"
#include "cluster/models/model_controller.hpp"
#include "cluster/roles/agent/child_launch.hpp"
#include "cluster/roles/process.hpp"
#include "cluster/roles/root/node_orders.hpp"
#include "cluster/roles/root/plan_controller.hpp"
#include "cluster/roles/root/plan_sender.hpp"
#include "cluster/roles/root/progress.hpp"
#include "cluster/roles/root/status_aggregator.hpp"

#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace baton::cluster {

class root {
public:
  // `original`: the operator's nodes.toml; `copy`: the cluster's. `join`: null if all nodes are on
  // this machine. All references outlive this.
  root(const cluster_contexts& all, std::filesystem::path original,
       const std::filesystem::path& copy, incarnation_clock& incarnations, process& self,
       progress& progress_line, join_server* join, model_controller& models);

  // Drains open streams within the grace, unless it is interrupted; then stops the children, last
  // started first.
  root_end shut_down(bool came_up, std::chrono::milliseconds grace);

  plan_snapshot plan() const { return plan_controller_.snapshot(); }

  // A machine has joined after the first plan was made.
  void joined_late(const std::string& node, const machine_facts& facts);
  // The keys of machines have changed: informs the remote agents.
  void keys_changed();
  // A remote machine has reported that it cannot run as this node.
  void cannot(const std::string& node, const std::string& why);

private:
  void start_status_aggregator();
  void start_supervisor();
  void start_models();
  void change_children();
  // A client loads or unloads a model on demand, or changes the worker models.
  void change(process_id gateway, change_model&& order);
  void take(const envelope& from, message&& m);
  void on_serves(std::uint32_t generation);
  void on_load(std::uint32_t pipeline, const load_report& load);
  void on_status(const status& s);
  void on_worker(const status& s);
  void tick();
  // Decides loads where the plan may have changed.
  void review_loads();
  // With the lock of `on_demand_`.
  void decide_loads();
  result<void> load_model(std::uint32_t pipeline);
  result<void> unload_model(std::uint32_t pipeline);
  void on_shard_ended(process_id shard);
  void on_peer_up(const hello& peer);
  void on_peer_down(process_id who);
  void on_end(const actors::child_exited& m);
  void on_worker_end(const actors::child_exited& m);
  std::string bad_ends();

  const cluster_contexts& all_;
  const cluster_base& cluster_;
  process& self_;
  progress& progress_line_;
  join_server* join_; // null: all nodes are on this machine
  model_controller& models_;
  std::atomic<bool> is_draining_{false};
  std::atomic<bool> is_stopping_{false}; // set after is_draining_
  std::atomic<bool> has_stopped_{false};
  std::mutex children_mutex_;
  std::vector<std::string> bad_ends_; // while stopping
  plan_sender plan_sender_;
  child_watch watch_;
  child_launcher launcher_;
  plan_controller plan_controller_;
  node_orders nodes_;
  std::mutex on_demand_mutex_;
  on_demand_models on_demand_;
  // From the steady clock to Unix time, when this root began
  const std::chrono::milliseconds wall_clock_ = std::chrono::floor<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch() -
      std::chrono::steady_clock::now().time_since_epoch());
  std::map<std::uint32_t, model_loads> shown_loads_;        // as sent to the aggregator
  kept_models recorded_;                                    // in the run directory
  std::map<std::uint32_t, std::set<process_id>> unloading_; // by pipeline: shards that are ending
  status_aggregator_actor status_aggregator_;
  actors::supervisor_actor supervisor_;
};

} // namespace baton::cluster
