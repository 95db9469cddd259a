#include "actors/scheduler_epochs.hpp"

#include "actors/scheduler_status.hpp"
#include "schema/limits.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace baton::actors {

namespace {

// True if all shards are present and the pause after the last failed epoch is over. Reports a new
// pause.
bool may_open(scheduler_pointer self) {
  auto& s = self->state;
  const bool was_paused = s.retries.is_paused();
  const bool kept_failing = s.retries.keeps_failing();
  auto shards = s.pipeline->openable();
  if (shards.empty())
    return false;
  const bool may = s.retries.may_open(shards, s.options.now());
  if (may)
    s.retries.on_opening(std::move(shards));
  if (kept_failing != s.retries.keeps_failing() || (!may && !was_paused)) {
    spdlog::warn("{}", s.retries.reason());
    publish_status(self);
  }
  return may;
}

// Also counts an epoch that never opened as failed.
void close(scheduler_pointer self, const std::string& why) {
  auto& s = self->state;
  const auto now = s.options.now();
  s.retries.on_closed(now, s.core->has_flights(), why);
  if (!s.core->is_open())
    return;
  spdlog::warn("epoch {} is closed: {}", s.pipeline->epoch().value, why);
  s.closed_at = now;
  s.core->close_epoch(s.retries.failing_since().value_or(now), why);
  publish_status(self);
}

} // namespace

void try_open(scheduler_pointer self) {
  auto& s = self->state;
  if (!may_open(self))
    return;
  auto orders = s.pipeline->open_if_complete();
  s.opening_at = s.options.now();
  std::vector<block_index> held;
  std::vector<std::uint32_t> states;
  if (!orders.empty() && orders.front().what.takes) {
    for (const auto& b : s.core->held_blocks())
      held.push_back(b.block);
    states = s.core->held_states();
  }
  for (auto& order : orders) {
    if (held.empty() || std::max(held.size(), states.size()) > limits::copies_max) {
      order.what.takes.reset();
    } else {
      order.what.takes->blocks = held;
      order.what.takes->states = states;
    }
    self->send(s.options.peers.stage(order.process), std::move(order.what));
  }
}

void switch_if_due(scheduler_pointer self) {
  auto& s = self->state;
  if (!s.pipeline->is_switch_due() || s.core->has_flights())
    return;
  close(self, "another generation of shards takes over");
  s.pipeline->switch_over();
  try_open(self);
}

void ask_to_load(scheduler_pointer self) {
  auto& s = self->state;
  if (s.options.card.loads_on_demand && s.pipeline->is_off() && !s.core->is_idle())
    publish_load(self);
}

void on_load_refused(scheduler_pointer self, const load_refused& m) {
  auto& s = self->state;
  spdlog::warn("the model cannot be loaded: {}", m.failure.message);
  if (s.pipeline->is_off())
    s.core->refuse_load(m.failure);
}

void end_late_epochs(scheduler_pointer self) {
  auto& s = self->state;
  const auto now = s.options.now();
  if (s.core->has_flights() && now - s.stepped_at >= step_timeout) {
    close(self, fmt::format("no step came back for {} s", step_timeout.count() / 1000));
    s.pipeline->abandon();
    try_open(self);
  }
  if (s.pipeline->current() == pipeline::state::opening && now - s.opening_at >= opening_timeout) {
    const auto why = fmt::format("it did not open within {} s", opening_timeout.count() / 1000);
    spdlog::warn("epoch {}: {}", s.pipeline->epoch().value, why);
    close(self, why);
    s.pipeline->abandon();
    try_open(self);
  }
  if (s.retries.has_held(now, s.core->has_flights()))
    publish_status(self);
  if (s.retries.is_paused())
    try_open(self);
}

void on_opened(scheduler_pointer self, const epoch_opened& m) {
  auto& s = self->state;
  if (!s.pipeline->on_opened(m))
    return;
  s.core->open_epoch(s.pipeline->epoch(),
                     {.stages = s.pipeline->stages(),
                      .blocks = s.pipeline->blocks(),
                      .block_positions = s.pipeline->block_positions(),
                      .swap_blocks = s.pipeline->swap_blocks(),
                      .pools = s.pipeline->pools(),
                      .state_slots = s.pipeline->state_slots()},
                     s.pipeline->has_restarted_shard() ? schedule::loss::shard
                                                       : schedule::loss::link,
                     s.pipeline->keeps_kv() ? schedule::kv_fate::kept : schedule::kv_fate::lost);
  s.retries.on_opened(s.options.now());
  s.why_lost.clear();
  ++s.epochs;
  if (s.was_open) {
    ++s.recoveries;
    s.recovery_seconds = std::chrono::duration<double>(s.options.now() - s.closed_at).count();
    spdlog::info("epoch {} of generation {} is open, {:.3f} s after the last one closed, KV {}",
                 m.epoch.value, s.pipeline->generation(), s.recovery_seconds,
                 s.pipeline->keeps_kv() ? "kept" : "lost");
  } else {
    spdlog::info("epoch {} is open: {} stages of {} ranks, {} KV blocks, {} of swap space, "
                 "max_batch_total_tokens {}",
                 m.epoch.value, s.pipeline->stages(), s.pipeline->width(), s.pipeline->blocks(),
                 s.pipeline->swap_blocks(), s.core->load().max_batch_total_tokens);
  }
  s.was_open = true;
  s.busy_micros.resize(std::max<std::size_t>(s.busy_micros.size(), s.pipeline->stages()));
  s.options.serves(s.pipeline->generation());
  publish_status(self);
}

void on_generations(scheduler_pointer self, const generations& m) {
  auto& s = self->state;
  const bool was_off = s.pipeline->is_off();
  if (s.pipeline->set_plan(m))
    close(self, "its generation is over");
  if (s.pipeline->is_off() && s.options.card.loads_on_demand)
    s.core->unload();
  try_open(self);
  if (s.pipeline->is_off() != was_off)
    publish_status(self);
  ask_to_load(self);
  if (s.core->is_open())
    s.options.serves(s.pipeline->generation());
}

void on_ready(scheduler_pointer self, const stage_ready& m) {
  auto& s = self->state;
  auto announced = s.pipeline->on_ready(m);
  if (!announced) {
    spdlog::error("{}", announced.error().message);
    if (m.generation == s.pipeline->generation()) // otherwise only the change of generation fails
      s.options.report_status(phase::failed, announced.error().message);
    return;
  }
  if (announced->closed) {
    const auto why = std::exchange(s.why_lost, {});
    close(self, why.empty() ? fmt::format("stage {} announced itself again", m.stage)
                            : fmt::format("stage {} lost the epoch: {}", m.stage, why));
  }
  try_open(self);
}

void on_peer_up(scheduler_pointer self, const peer_up& m) {
  auto& s = self->state;
  if (m.peer.role == role::gateway) {
    s.gateways.insert(m.peer.process);
    send_status_to(self, m.peer.process);
  } else if (m.peer.role == role::shard) {
    s.pipeline->on_up(m.peer);
    try_open(self);
  }
}

void on_peer_down(scheduler_pointer self, const peer_down& m) {
  auto& s = self->state;
  if (s.gateways.erase(m.process) > 0)
    s.core->orphan_all_of(m.process);
  if (s.pipeline->on_down(m.process)) {
    close(self, fmt::format("process {} went down: {}", m.process.value, m.why));
    try_open(self); // while the plan changes, another generation may be complete
  }
}

} // namespace baton::actors
