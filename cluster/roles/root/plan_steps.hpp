// Plans for changes of several pipelines that begin together: nodes that are added or drained,
// replicas that are switched on or off. Begins nothing; plan_controller does that.
#pragma once

#include "cluster/membership/failure_detector.hpp"
#include "cluster/membership/generation_registry.hpp"
#include "cluster/roles/roles.hpp"
#include "runtime/schedule/tickets/retry_policy.hpp"

#include <optional>
#include <set>
#include <vector>

namespace baton::cluster {

// Pause before the next attempt after a generation without the lost machines was given up. The
// back-off multiplies it; beyond the intensity the longest pause applies.
inline constexpr std::chrono::seconds retry_pause_min{15};
inline constexpr schedule::retry_intensity move_intensity{6, std::chrono::hours(1)};

// One pipeline, as the root controls it.
struct controlled_pipeline {
  explicit controlled_pipeline(const cluster_context& of);

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

// The next generation of one pipeline, and its plan.
struct plan_step {
  controlled_pipeline* of = nullptr;
  generation next;
  cluster_plan plan;
};

class plan_steps {
public:
  // Both must outlive this object.
  plan_steps(std::vector<controlled_pipeline>& pipelines, const machines& known)
      : pipelines_(pipelines), known_(known) {}

  // Changes all pipelines that have devices on the node, or none. Errors: conflict (a change is in
  // progress, or no pipeline has devices there), as next_generation, make_plan, check_fits_beside.
  result<std::vector<plan_step>> change(const change_nodes& order) const;
  // Switches the first replicas on and the rest off; all get stages of the requested width. Errors:
  // as `change`, not_found.
  result<std::vector<plan_step>> scale(const scale_model& order) const;

  // Loads or unloads a model that is loaded on demand. Errors: conflict (a change is in progress),
  // not_ready (its nodes are drained), as make_plan, check_fits_beside.
  result<std::vector<plan_step>> switch_pipeline(std::uint32_t pipeline, bool is_on) const;

  // Unique across pipelines: a shard's process id has its generation, which implies the pipeline.
  std::uint32_t next_number() const;
  // Serving and coming ones.
  std::vector<const cluster_plan*> current_plans() const;
  result<cluster_plan> plan_of(const controlled_pipeline& l, const generation& next) const;

private:
  result<void> add(controlled_pipeline& l, generation next, std::vector<plan_step>& steps) const;
  result<void> check_served(const controlled_pipeline& l,
                            const std::vector<plan_step>& steps) const;
  result<std::vector<controlled_pipeline*>> replicas_of(const std::string& model) const;

  std::vector<controlled_pipeline>& pipelines_;
  const machines& known_;
};

} // namespace baton::cluster
