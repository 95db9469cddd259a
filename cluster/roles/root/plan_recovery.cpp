// The part of plan_controller that reacts to failures: lost nodes, failed shards, plan changes that
// do not complete.
#include "cluster/roles/root/plan_controller.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace baton::cluster {
namespace {

using clock = std::chrono::steady_clock;

} // namespace

void plan_controller::on_agent(process_id agent, bool is_here) {
  std::lock_guard lock(mutex_);
  for (auto& l : pipelines_)
    for (const auto& a : agents_)
      if (a.process == agent) {
        if (is_here)
          l.failures.on_connected(a.on);
        else
          l.failures.on_disconnected(a.on, clock::now());
      }
}

void plan_controller::on_serving(std::uint32_t pipeline, bool is_serving) {
  std::lock_guard lock(mutex_);
  for (auto& l : pipelines_)
    if (l.context->pipeline() == pipeline)
      l.failures.on_serving(is_serving, clock::now());
}

// Schedules another attempt if the layers of a lost machine are still without a place.
void plan_controller::schedule_retry(controlled_pipeline& l) {
  if (l.coming && l.replacement == l.coming->generation)
    l.retry_at =
        clock::now() +
        std::max<std::chrono::milliseconds>(
            retry_pause_min, l.moves.on_end(clock::now(), false).value_or(l.moves.pause_max()));
}

// Ends a change without a result.
void plan_controller::give_up(controlled_pipeline& l, const std::string& why) {
  if (!l.registry.give_up(why))
    return;
  schedule_retry(l);
  l.coming.reset();
  save_change();
}

// Starts a generation beside the serving one, which may recover first, or in its place if there is
// no room for both.
result<void> plan_controller::move_away_from(controlled_pipeline& l,
                                             const std::set<std::string>& lost,
                                             const std::string& why) {
  auto next = next_generation_without(l.view, l.registry.record().now.serving, lost);
  if (!next)
    return next.error();
  next->number = steps_.next_number();
  auto plan = steps_.plan_of(l, *next);
  if (!plan)
    return plan.error();
  const bool has_room = check_fits_beside(steps_.current_plans(), *plan, record_.known).has_value();
  const auto begun = has_room ? l.registry.begin(*next, clock::now(), why)
                              : l.registry.replace(*next, clock::now(), why);
  if (!begun)
    return begun;
  if (has_room)
    l.coming = std::move(*plan);
  else
    l.serving = std::move(*plan);
  l.replacement = next->number;
  return {};
}

void plan_controller::replace_lost_nodes(controlled_pipeline& l) {
  const auto lost = l.failures.lost(clock::now());
  if (l.retry_at && clock::now() >= *l.retry_at) {
    l.retry_at.reset();
    l.handled_losses.clear();
  }
  if (lost == std::exchange(l.handled_losses, lost))
    return; // already handled
  const auto& last = l.coming ? *l.registry.record().now.coming : l.registry.record().now.serving;
  if (std::none_of(lost.begin(), lost.end(),
                   [&](const auto& node) { return has_shards_on(last, node); }))
    return;
  const auto why = fmt::format("node {} is gone", fmt::join(lost, ", "));
  l.registry.give_up(why);
  l.coming.reset();
  if (auto ok = move_away_from(l, lost, why); !ok)
    l.registry.stay(
        fmt::format("{}, and the others cannot take its layers: {}", why, ok.error().message));
  spdlog::warn("{}", l.registry.outcome());
  save_change();
}

void plan_controller::on_failed(const status& child) {
  if (child.role != role::shard)
    return;
  change_and_publish([&] {
    for (auto& l : pipelines_)
      if (l.coming && process_ids::generation_of(child.process) == l.coming->generation)
        give_up(l, fmt::format("{}: {}", child.name, child.reason));
  });
}

} // namespace baton::cluster
