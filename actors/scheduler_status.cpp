#include "actors/scheduler_status.hpp"

#include <numeric>

namespace baton::actors {
namespace {

// The cause of failing epochs if all shards are present; otherwise the missing shard.
std::string reason_now(const scheduler_state& s) {
  const bool is_complete =
      s.pipeline->current() != pipeline::state::waiting || !s.pipeline->openable().empty();
  const bool is_failing = s.retries.keeps_failing() || s.retries.is_paused();
  return is_complete && is_failing ? s.retries.reason() : s.pipeline->reason();
}

model_card card_now(const scheduler_state& s) {
  auto card = s.options.card;
  card.reason = reason_now(s);
  if (s.is_draining)
    card.phase = phase::draining;
  else if (s.core->is_open() && !s.retries.keeps_failing())
    card.phase = phase::ready;
  else if (s.pipeline->is_off())
    card.phase = card.loads_on_demand ? phase::unloaded : phase::stopped;
  else if (card.loads_on_demand && s.core->is_unloaded())
    card.phase = phase::loading;
  else
    card.phase = s.was_open ? phase::recovering : phase::loading;
  return card;
}

// Without the values that depend on time.
load_report load_now(const scheduler_state& s) {
  auto load = s.core->load();
  load.model = s.options.card.name;
  load.epochs = s.epochs;
  load.recoveries = s.recoveries;
  load.recovery_seconds = s.recovery_seconds;
  load.stage_busy_micros = s.busy_micros;
  return load;
}

// The load goes first: when a model is ready, its metrics are available.
void send_status(scheduler_pointer self, process_id gateway, const load_report& load,
                 const model_card& card) {
  auto to = self->state.options.peers.gateway(gateway);
  self->send(to, load);
  self->send(to, card);
}

} // namespace

void send_status_to(scheduler_pointer self, process_id gateway) {
  send_status(self, gateway, load_now(self->state), card_now(self->state));
}

void publish_status(scheduler_pointer self) {
  auto& s = self->state;
  const auto load = load_now(s);
  const auto card = card_now(s);
  for (auto gateway : s.gateways)
    send_status(self, gateway, load, card);
  // A head without layers is in its intended state, and so is one whose model is being loaded.
  const bool is_intended = card.phase == phase::stopped || card.phase == phase::unloaded ||
                           (card.phase == phase::loading && card.loads_on_demand);
  s.options.report_status(is_intended ? phase::ready : card.phase, card.reason);
}

void publish_load(scheduler_pointer self) {
  auto& s = self->state;
  auto now = s.options.now();
  auto load = load_now(s);
  auto busy = std::accumulate(s.busy_micros.begin(), s.busy_micros.end(), std::uint64_t{0});
  auto span = std::chrono::duration<double>(now - s.reported_at).count() *
              static_cast<double>(s.pipeline->stages());
  if (load.in_flight > 0 && span > 0)
    load.bubble_ratio = std::max(0.0, 1 - static_cast<double>(busy - s.busy_reported) / 1e6 / span);
  s.busy_reported = busy;
  s.reported_at = now;
  for (auto gateway : s.gateways)
    self->send(s.options.peers.gateway(gateway), load);
  s.options.report(load);
}

} // namespace baton::actors
