// The worker models of one gateway process, as the root tells of them: a pool for each revision,
// the door where their processes greet, and the desk for loads and unloads.
//
// A revision's pool:
//   (told of) --> serving --unloading--> draining --nothing open--> drained --told of no more-->
//   (gone)
//                   +--told of no more: no grace--> draining
#pragma once

#include "cluster/roles/process.hpp"
#include "cluster/roles/roles.hpp"
#include "gateway/state/board.hpp"
#include "gateway/workers/worker_pool.hpp"

#include <map>
#include <memory>
#include <mutex>

namespace baton::gateway {
class worker_door;
}

namespace baton::cluster {

class gateway_workers {
public:
  // Begins with what the run directory has noted, and tells the board. Nothing is opened where
  // nodes.toml has neither [[workers]] nor a [model_repository] or a [model_store]. Only before
  // `self` begins. Errors: address_in_use, io_failed.
  static result<std::shared_ptr<gateway_workers>> start(process& self, const cluster_base& cluster,
                                                        std::shared_ptr<gateway::board> board,
                                                        std::uint32_t gateway_index);
  gateway_workers(process& self, const cluster_base& cluster, std::shared_ptr<gateway::board> board,
                  std::uint32_t gateway_index);
  ~gateway_workers(); // stops
  // No worker is heard any more, and no pool is left. Idempotent.
  void stop();

private:
  struct serving {
    gateway::worker_pool_actor pool;
    gateway::worker_view view;
    std::vector<gateway::worker_place> places;
    std::function<void(bool)> has_workers{}; // of its load
    std::shared_ptr<std::atomic<bool>> is_drained = std::make_shared<std::atomic<bool>>(false);
    std::optional<std::chrono::steady_clock::time_point> idle_since{}; // told no more
  };

  void take(served_models now);
  // True: it has drained, which the root is to hear.
  bool take(const served_model& one);
  serving make(const served_model& one, const worker_config& config);
  void follow(serving& s, const served_model& one);
  std::vector<gateway::worker_place> places_of(const served_model& one) const;
  void end_others(const served_models& now);
  void show(served_models now);
  void say_drained(std::uint64_t revision);
  void tick();
  void each(const std::function<void(const serving&)>& f);

  process& self_;
  const cluster_base& cluster_;
  std::shared_ptr<gateway::board> board_;
  std::uint32_t index_;
  std::shared_ptr<gateway::worker_door> door_; // null: there are none
  std::mutex mutex_;
  std::map<std::uint64_t, serving> pools_; // by revision
  bool is_open_ = false;                   // the door
  bool is_stopped_ = false;
};

} // namespace baton::cluster
