// The root's hand on the plan: takes orders to change it, does without machines that are lost,
// notes what there is, then says it to head and agents. What must be remembered is in the
// generation book, who is lost in the absence book, what fits in plan.hpp.
#pragma once

#include "cluster/absence_book.hpp"
#include "cluster/generation_book.hpp"
#include "cluster/roles.hpp"

#include <functional>
#include <mutex>

namespace baton::cluster {

// What there is now, as whoever shows it needs it.
struct plan_standing {
  cluster_plan serving;
  std::optional<cluster_plan> coming;
  std::string change; // how it goes, or how the last one ended
};

// What the root says to head and agents.
struct plan_word {
  machines known; // those that have joined
  generations shards;
};

// Any thread may call it.
class plan_keeper {
public:
  struct outside {                                     // neither may call back
    std::function<void(const plan_word&)> say;         // to head and agents
    std::function<void(const plan_standing&)> changed; // ahead of `say`
  };
  // `context` must outlive it.
  plan_keeper(const cluster_context& context, outside to);

  nodes_changed change(const change_nodes& order);
  // A machine has come that was not here when the cluster came up.
  void on_joined(const std::string& node, const machine_facts& facts);
  void on_serves(std::uint32_t generation);
  // The agent of this place is linked, or is not.
  void on_agent(node_id agent, bool is_here);
  // Whether the head has an open epoch, as far as one knows.
  void on_serving(bool is_serving);
  // A child is beyond its intensity, as its agent says: if it is one of those that come, they are
  // given up.
  void on_failed(const status& child);
  void tick();

  plan_word now() const;
  plan_standing standing() const;

private:
  // Gives it its number.
  result<cluster_plan> plan_of_next(generation& next) const;
  result<generation> begin(const change_nodes& order);
  void do_without_the_lost();
  result<void> move_away_from(const std::set<std::string>& lost, const std::string& why);
  void give_up(const std::string& why);
  result<void> note();
  plan_word word() const;
  void settle();
  void note_and_tell();
  void tell();

  const cluster_context& context_;
  outside to_;
  mutable std::mutex mutex_;
  plan_note note_;
  generation_book book_;
  absence_book away_;
  std::set<std::string> moved_from_;    // the lost nodes of which something was made
  std::optional<std::uint32_t> flight_; // the generation that comes because of them
  cluster_plan serving_;
  std::optional<cluster_plan> coming_;
};

} // namespace baton::cluster
