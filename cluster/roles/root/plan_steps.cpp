#include "cluster/roles/root/plan_steps.hpp"

#include "cluster/config/pipelines.hpp"

#include <algorithm>

namespace baton::cluster {
namespace {

using clock = std::chrono::steady_clock;

// The remote nodes that have devices of this pipeline.
std::vector<std::string> elsewhere(const cluster_config& view) {
  std::vector<std::string> nodes;
  for (const auto& n : view.nodes)
    if (n.is_elsewhere && has_devices_on(view, view.pipeline, n.name))
      nodes.push_back(n.name);
  return nodes;
}

} // namespace

controlled_pipeline::controlled_pipeline(const cluster_context& of)
    : context(&of), view(of.config), registry(*of.record().generations, clock::now()),
      failures(elsewhere(of.config), {of.config.node_timeout, change_patience}, clock::now()),
      serving(of.plan), coming(of.coming) {}

std::uint32_t plan_steps::next_number() const {
  std::uint32_t last = 0;
  for (const auto& l : pipelines_)
    last = std::max(last, l.registry.record().last);
  return last + 1;
}

std::vector<const cluster_plan*> plan_steps::current_plans() const {
  std::vector<const cluster_plan*> all;
  for (const auto& l : pipelines_) {
    all.push_back(&l.serving);
    if (l.coming)
      all.push_back(&*l.coming);
  }
  return all;
}

result<cluster_plan> plan_steps::plan_of(const controlled_pipeline& l,
                                         const generation& next) const {
  return make_plan(l.view, l.context->model, known_, next);
}

// Adds a step to those that begin together. Errors: conflict (a change is in progress), as plan_of,
// check_fits_beside.
result<void> plan_steps::add(controlled_pipeline& l, generation next,
                             std::vector<plan_step>& steps) const {
  if (const auto coming = l.registry.coming())
    return fail(errc::conflict, "generation {} is still being started: wait for it", *coming);
  next.number = next_number() + static_cast<std::uint32_t>(steps.size());
  auto plan = plan_of(l, next);
  if (!plan)
    return plan.error();
  auto others = current_plans();
  for (const auto& earlier : steps)
    others.push_back(&earlier.plan);
  if (auto ok = check_fits_beside(others, *plan, known_); !ok)
    return ok;
  steps.push_back({&l, std::move(next), std::move(*plan)});
  return {};
}

result<std::vector<plan_step>> plan_steps::change(const change_nodes& order) const {
  std::vector<plan_step> steps;
  for (auto& l : pipelines_) {
    const auto& view = l.view;
    if (view.has_node(order.node) && !has_devices_on(view, view.pipeline, order.node))
      continue;
    auto next = next_generation(view, l.registry.record().now.serving, order.node, order.is_drain);
    if (!next)
      return next.error();
    if (auto ok = add(l, std::move(*next), steps); !ok)
      return ok.error();
  }
  if (steps.empty())
    return fail(errc::conflict, "node {} has devices for no model", order.node);
  for (const auto& s : steps)
    if (auto ok = check_served(*s.of, steps); !ok)
      return ok.error();
  return steps;
}

// A change may leave a replica without nodes, but not the last one of its model.
result<void> plan_steps::check_served(const controlled_pipeline& l,
                                      const std::vector<plan_step>& steps) const {
  const auto& model = l.view.model.name;
  if (l.view.model.loads_on_demand)
    return {}; // its next request loads it, if there is a device
  for (const auto& other : pipelines_) {
    const auto changes = std::find_if(steps.begin(), steps.end(),
                                      [&](const plan_step& s) { return s.of == &other; });
    const auto stages = changes == steps.end() ? other.serving.stages : changes->next.stages;
    if (other.view.model.name == model && stages > 0)
      return {};
  }
  return fail(errc::does_not_fit, "no device is left for the layers of model {}", model);
}

// Replicas that serve, then those that could, then the rest; stable within each group. Errors:
// not_found.
result<std::vector<controlled_pipeline*>> plan_steps::replicas_of(const std::string& model) const {
  std::vector<controlled_pipeline*> replicas;
  std::set<std::string> names;
  for (auto& l : pipelines_) {
    names.insert(l.view.model.name);
    if (l.view.model.name == model)
      replicas.push_back(&l);
  }
  if (!replicas.empty() && replicas.front()->view.model.loads_on_demand)
    return fail(errc::conflict, "model {} is loaded on demand and has one replica", model);
  if (replicas.empty())
    return fail(errc::not_found, "there is no model {}: {} {} served", model,
                fmt::join(names, ", "), names.size() == 1 ? "is" : "are");
  const auto rank = [](const controlled_pipeline* l) {
    return l->serving.stages > 0                                        ? 0
           : own_devices(l->view, l->registry.record().now.serving) > 0 ? 1
                                                                        : 2;
  };
  std::stable_sort(replicas.begin(), replicas.end(),
                   [&](const controlled_pipeline* a, const controlled_pipeline* b) {
                     return rank(a) < rank(b);
                   });
  return replicas;
}

result<std::vector<plan_step>> plan_steps::switch_pipeline(std::uint32_t pipeline,
                                                           bool is_on) const {
  std::vector<plan_step> steps;
  for (auto& l : pipelines_) {
    if (l.context->pipeline() != pipeline)
      continue;
    auto now = l.registry.record().now.serving;
    if (is_on)
      now = leave_out(std::move(now), l.failures.lost(clock::now()));
    auto next = next_generation_scaled(l.view, now, is_on, now.width);
    if (!next) // no other model can make room for it
      return fail(errc::not_ready, "{}", next.error().message);
    if (auto ok = add(l, std::move(*next), steps); !ok)
      return ok.error();
  }
  return steps;
}

result<std::vector<plan_step>> plan_steps::scale(const scale_model& order) const {
  const auto replicas = replicas_of(order.model);
  if (!replicas)
    return replicas.error();
  const auto serving = static_cast<std::size_t>(
      std::count_if(replicas->begin(), replicas->end(),
                    [](const controlled_pipeline* l) { return l->serving.stages > 0; }));
  const auto wanted = order.replicas > 0 ? order.replicas : serving;
  if (wanted > replicas->size())
    return fail(errc::does_not_fit,
                "nodes.toml has devices for {} replicas of model {}, not for {}", replicas->size(),
                order.model, wanted);
  std::vector<plan_step> steps;
  for (std::size_t i = 0; i < replicas->size(); ++i) {
    auto& l = *replicas->at(i);
    auto now = l.registry.record().now.serving;
    const bool is_on = i < wanted;
    if (is_on && now.stages == 0) // begins with the machines that are present
      now = leave_out(std::move(now), l.failures.lost(clock::now()));
    auto next =
        next_generation_scaled(l.view, now, is_on, order.width > 0 ? order.width : now.width);
    if (!next)
      return next.error();
    if (*next == l.registry.record().now.serving)
      continue;
    if (auto ok = add(l, std::move(*next), steps); !ok)
      return ok.error();
  }
  if (steps.empty())
    return fail(errc::conflict, "model {} has {} replica{} with stages of {} already", order.model,
                wanted, wanted == 1 ? "" : "s", replicas->front()->serving.width);
  return steps;
}

} // namespace baton::cluster
