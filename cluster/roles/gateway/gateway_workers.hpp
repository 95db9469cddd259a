// The worker models of one gateway process, as the root publishes them. Each revision has a pool.
// Also the server to which their processes connect, and the client for loads and unloads.
//
// A revision's pool:
//   (published) --> serving --unloading--> draining --no open request--> drained
//   drained --no longer published--> (gone)
//                   +--no longer published: no grace--> draining
#pragma once

#include "cluster/roles/process.hpp"
#include "cluster/roles/roles.hpp"
#include "gateway/state/gateway_state.hpp"
#include "gateway/workers/worker_pool.hpp"

#include <map>
#include <memory>
#include <mutex>

namespace baton::gateway {
class worker_server;
}

namespace baton::cluster {

class gateway_workers {
public:
  // Starts from the state in the run directory and publishes it to the gateway. Opens nothing if
  // nodes.toml has no [[workers]], [model_repository] or [model_store]. Only before `self` begins.
  // Errors: address_in_use, io_failed.
  static result<std::shared_ptr<gateway_workers>>
  start(process& self, const cluster_base& cluster, std::shared_ptr<gateway::gateway_state> state,
        std::uint32_t gateway_index);
  gateway_workers(process& self, const cluster_base& cluster,
                  std::shared_ptr<gateway::gateway_state> state, std::uint32_t gateway_index);
  ~gateway_workers(); // stops
  // Ignores workers from now on and ends all pools. Idempotent.
  void stop();

private:
  struct serving {
    gateway::worker_pool_actor pool;
    gateway::worker_view view;
    std::vector<gateway::worker_process> assigned;
    std::function<void(bool)> has_workers{}; // sets the flag of its load
    std::shared_ptr<std::atomic<bool>> is_drained = std::make_shared<std::atomic<bool>>(false);
    std::optional<std::chrono::steady_clock::time_point> idle_since{}; // since unpublished
  };

  void take(served_models now);
  // True: it has drained, which must be reported to the root.
  bool take(const served_model& one);
  serving make(const served_model& one, const worker_config& config);
  void follow(serving& s, const served_model& one);
  std::vector<gateway::worker_process> assigned_workers(const served_model& one) const;
  void end_others(const served_models& now);
  void show(served_models now);
  void report_drained(std::uint64_t revision);
  void tick();
  void each(const std::function<void(const serving&)>& f);

  process& self_;
  const cluster_base& cluster_;
  std::shared_ptr<gateway::gateway_state> state_;
  std::uint32_t index_;
  std::shared_ptr<gateway::worker_server> server_; // null: there are no worker models
  std::mutex mutex_;
  std::map<std::uint64_t, serving> pools_; // by revision
  bool is_open_ = false;                   // whether the server is open
  bool is_stopped_ = false;
};

} // namespace baton::cluster
