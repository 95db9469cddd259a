// The root's hand on the plan: takes orders to change it, takes nodes in and lets them go, does
// without machines that are lost, notes what there is, then says it to heads and agents. What must
// be remembered of each pipeline is in its generation book, who is lost in its absence book, what
// fits in plan.hpp.
#pragma once

#include "cluster/plan/absence_book.hpp"
#include "cluster/plan/generation_book.hpp"
#include "cluster/roles/roles.hpp"
#include "runtime/schedule/retry_policy.hpp"

#include <functional>
#include <mutex>

namespace baton::cluster {

// From a generation that was begun without lost machines and given up to the next: at first the
// least, then as many of these as the back-off says. Beyond the intensity with the longest pause.
inline constexpr std::chrono::seconds move_again_min{15};
inline constexpr schedule::retry_intensity move_intensity{6, std::chrono::hours(1)};

// What there is now of a pipeline, as whoever shows it needs it.
struct pipeline_standing {
  std::string model;
  cluster_plan serving;
  std::optional<cluster_plan> coming;
  std::string change; // how it goes, or how the last one ended
};
struct plan_standing {
  std::vector<agent_plan> agents;
  std::vector<pipeline_standing> pipelines; // by number
};

// What the root says to heads and agents.
struct plan_word {
  std::vector<agent_plan> agents; // of the nodes that there are
  told_nodes nodes;
  machines known; // those that have joined
  std::vector<generations> shards;
};

// Any thread may call it.
class plan_keeper {
public:
  struct outside {                                     // both may call back
    std::function<void(const plan_word&)> say;         // to heads and agents
    std::function<void(const plan_standing&)> changed; // ahead of `say`
  };
  // Of all pipelines. `all` must outlive it.
  plan_keeper(const cluster_contexts& all, outside to);

  nodes_changed change(const change_nodes& order);
  nodes_changed scale(const scale_model& order);
  // Nodes that nodes.toml, of this text, names by now, `node` among them, are the cluster's from
  // now on; none of them has layers yet. Errors: not_found (it is not there either), conflict
  // (check_grown), bad_config (too many), io_failed.
  result<std::vector<node_config>> admit(const std::string& node, const std::string& text,
                                         cluster_config fresh);
  bool has_node(const std::string& node) const;
  // It is the cluster's no more. Errors: not_found, conflict (it has layers), bad_config
  // (it is on this machine).
  result<void> remove(const std::string& node);
  // A machine has come that was not here when the cluster came up.
  void on_joined(const std::string& node, const machine_facts& facts);
  void on_serves(std::uint32_t generation);
  // The agent of this place is linked, or is not.
  void on_agent(node_id agent, bool is_here);
  // Whether the head of that pipeline has an open epoch, as far as one knows.
  void on_serving(std::uint32_t pipeline, bool is_serving);
  // A child is beyond its intensity, as its agent says: if it is one of those that come, they are
  // given up.
  void on_failed(const status& child);
  void tick();

  plan_standing standing() const;
  plan_word word() const;
  // To somebody who has come: what is said last is what is so, whatever changes meanwhile.
  void tell(const std::function<void(const plan_word&)>& one) const;

private:
  struct line { // of one pipeline
    explicit line(const cluster_context& of);

    const cluster_context* context; // for what never changes
    cluster_config view;
    generation_book book;
    absence_book away;
    std::set<std::string> moved_from;    // the lost nodes of which something was made
    std::optional<std::uint32_t> flight; // the generation that comes because of them
    std::optional<std::chrono::steady_clock::time_point> again_at; // it did not come: another one
    schedule::retry_policy moves{move_intensity, move_again_min};
    cluster_plan serving;
    std::optional<cluster_plan> coming;
  };
  struct step { // of a change
    line* of = nullptr;
    generation next;
    cluster_plan plan;
  };

  std::uint32_t next_number() const;
  std::vector<const cluster_plan*> all_there() const;
  result<cluster_plan> plan_of(const line& l, const generation& next) const;
  result<void> add_step(line& l, generation next, std::vector<step>& steps) const;
  result<std::vector<step>> plan_change(const change_nodes& order);
  result<std::vector<step>> plan_scale(const scale_model& order);
  result<std::vector<line*>> replicas_of(const std::string& model);
  result<void> check_served(const line& l, const std::vector<step>& steps) const;
  nodes_changed begin(std::uint64_t request, result<std::vector<step>> steps,
                      const std::string& why_off);
  void do_without_the_lost(line& l);
  result<void> move_away_from(line& l, const std::set<std::string>& lost, const std::string& why);
  void give_up(line& l, const std::string& why);
  void try_again_later(line& l);
  result<void> note();
  result<std::vector<node_config>> take_in(const std::string& node, const std::string& text,
                                           cluster_config fresh);
  result<void> let_go(const std::string& node);
  void use_nodes(cluster_config now);
  plan_word word_now() const;
  plan_standing stand() const;
  void note_change();
  void change_and_tell(const std::function<void()>& change);
  void tell();

  outside to_;
  mutable std::mutex mutex_;
  plan_note note_;
  run_dir dir_;
  std::string text_;      // of nodes.toml
  cluster_config config_; // its nodes are those that there are
  std::vector<agent_plan> agents_;
  std::vector<line> lines_;
  std::uint64_t version_ = 0; // changes of all that is told
};

} // namespace baton::cluster
