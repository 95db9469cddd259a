// Invariants that hold at every moment under all faults. The world feeds them after each step and
// each tick; they keep the state to compare with.
#pragma once

#include "actors/scheduler.hpp"
#include "schema/messages.hpp"

#include <chrono>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace baton::sim {

class world;

class promises {
public:
  explicit promises(world& w) : world_(w) {}

  // -- what happens --
  void after_scheduler(); // has handled a message
  void before_step(process_id shard, const micro_batch& batch);
  void on_disagreement(stage_index stage, std::uint32_t rank); // with rank 0, in a step
  void after_tick();
  void on_start(process_id child, bool is_alive); // by the supervisor
  void on_exit(process_id child);
  void on_root_lost();
  void on_actor_end(const std::string& whose);
  void on_new_shard(); // or another plan: failures of before may not repeat

  // All is idle: no resource is held for any request.
  void at_rest();

  const std::vector<std::string>& broken() const { return broken_; }

private:
  void check_links();
  void check_order(const micro_batch& batch);
  void check_openings(const actors::scheduler_state& s, const load_report& load);
  void report(std::string what);

  struct progress {
    std::uint32_t expected = 0; // position of its next row
    std::uint64_t last_batch = 0;
  };
  world& world_;
  std::vector<std::string> broken_;
  epoch_id epoch_;                                             // the highest one of the head
  std::deque<std::chrono::steady_clock::time_point> openings_; // since a step came back
  std::uint64_t steps_ = 0;                                    // that came back
  std::map<process_id, epoch_id> run_; // by shard: the highest epoch that it ran for
  std::map<std::pair<process_id, process_id>, incarnation_id>
      met_; // the incarnations that each process has met
  std::map<process_id, std::deque<std::chrono::steady_clock::time_point>> exits_;
  std::map<sequence_id, progress> order_; // at stage 0, within an epoch
  epoch_id order_epoch_;
  std::uint64_t most_orphaned_ = 0; // at any time: at most so many were suspended
  epoch_id head_;                   // first_epoch of the head that was last seen
  std::uint64_t most_open_ = 0;     // tickets, in this incarnation
  std::uint64_t open_before_ = 0;   // in the previous one: it may receive them again
};

} // namespace baton::sim
