#include "actors/scheduler.hpp"

#include "actors/actor_faults.hpp"
#include "schema/limits.hpp"

#include <spdlog/spdlog.h>

#include <numeric>

namespace baton::actors {
namespace {

using scheduler_pointer = scheduler_actor::stateful_pointer<scheduler_state>;

double seconds_between(schedule::time_point from, schedule::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// -- reports to gateways and root --

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
    card.phase = phase::stopped;
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

void publish_status(scheduler_pointer self) {
  auto& s = self->state;
  const auto load = load_now(s);
  const auto card = card_now(s);
  for (auto gateway : s.gateways)
    send_status(self, gateway, load, card);
  // A head without layers is in its intended state.
  s.options.report_status(card.phase == phase::stopped ? phase::ready : card.phase, card.reason);
}

void publish_load(scheduler_pointer self) {
  auto& s = self->state;
  auto now = s.options.now();
  auto load = load_now(s);
  auto busy = std::accumulate(s.busy_micros.begin(), s.busy_micros.end(), std::uint64_t{0});
  auto span = seconds_between(s.reported_at, now) * static_cast<double>(s.pipeline->stages());
  if (load.in_flight > 0 && span > 0)
    load.bubble_ratio = std::max(0.0, 1 - static_cast<double>(busy - s.busy_reported) / 1e6 / span);
  s.busy_reported = busy;
  s.reported_at = now;
  for (auto gateway : s.gateways)
    self->send(s.options.peers.gateway(gateway), load);
  s.options.report(load);
}

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

// Opens an epoch if possible. Names the blocks that new shards can take over, or none if there are
// too many to name.
void try_open(scheduler_pointer self) {
  auto& s = self->state;
  if (!may_open(self))
    return;
  auto orders = s.pipeline->open_if_complete();
  s.opening_at = s.options.now();
  std::vector<block_index> held;
  if (!orders.empty() && orders.front().what.takes)
    for (const auto& b : s.core->held_blocks())
      held.push_back(b.block);
  for (auto& order : orders) {
    if (held.empty() || held.size() > limits::copies_max)
      order.what.takes.reset();
    else
      order.what.takes->blocks = held;
    self->send(s.options.peers.stage(order.process), std::move(order.what));
  }
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

// -- after every event: form and send what can run --

// Switches between two micro-batches: in-flight steps end first, and no others follow. A step that
// never returns closes the epoch as usual (step_timeout).
void switch_if_due(scheduler_pointer self) {
  auto& s = self->state;
  if (!s.pipeline->is_switch_due() || s.core->has_flights())
    return;
  close(self, "another generation of shards takes over");
  s.pipeline->switch_over();
  try_open(self);
}

void pump(scheduler_pointer self) {
  auto& s = self->state;
  if (!s.core->has_flights())
    s.stepped_at = s.options.now();
  switch_if_due(self);
  while (!s.pipeline->is_switch_due()) {
    auto batch = s.core->next(s.options.now());
    if (!batch)
      break;
    self->send(s.options.peers.stage(s.pipeline->first_stage()), std::move(*batch));
  }
  auto out = s.core->take();
  s.trial.drop_tokens(out.tokens); // it has no client
  if (!out.tokens.empty())
    self->send(s.options.detokenizer, step_tokens{std::move(out.tokens)});
  for (auto& r : out.refusals) {
    if (s.trial.is_of(r.message.ticket))
      continue;
    if (!s.core->is_known(r.message.ticket)) // else another gateway has resumed it
      s.reservations->forget(r.message.ticket);
    self->send(s.options.peers.gateway(r.gateway), std::move(r.message));
  }
  s.trial.forget_ended(*s.core);
  if (s.core->is_idle())
    s.core->check_integrity();
}

// Shows whether the pipeline works again.
void try_trial_step(scheduler_pointer self) {
  auto& s = self->state;
  if (!s.retries.keeps_failing() || !s.core->is_open() || !s.core->is_idle())
    return;
  s.trial.begin(*s.core, s.options.card.name, s.options.now());
}

// -- the pipeline's lifecycle --

void on_opened(scheduler_pointer self, const epoch_opened& m) {
  auto& s = self->state;
  if (!s.pipeline->on_opened(m))
    return;
  s.core->open_epoch(s.pipeline->epoch(),
                     {s.pipeline->stages(), s.pipeline->blocks(), s.pipeline->block_positions(),
                      s.pipeline->swap_blocks(), s.pipeline->pools()},
                     s.pipeline->has_restarted_shard() ? schedule::loss::shard
                                                       : schedule::loss::link,
                     s.pipeline->keeps_kv() ? schedule::kv_fate::kept : schedule::kv_fate::lost);
  s.retries.on_opened(s.options.now());
  s.why_lost.clear();
  ++s.epochs;
  if (s.was_open) {
    ++s.recoveries;
    s.recovery_seconds = seconds_between(s.closed_at, s.options.now());
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

// Applies the root's complete plan.
void on_generations(scheduler_pointer self, const generations& m) {
  auto& s = self->state;
  const bool was_off = s.pipeline->is_off();
  if (s.pipeline->set_plan(m))
    close(self, "its generation is over");
  try_open(self);
  if (s.pipeline->is_off() != was_off)
    publish_status(self);
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
    send_status(self, m.peer.process, load_now(s), card_now(s));
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

// -- the step --

void on_sampled(scheduler_pointer self, const sampled& m) {
  auto& s = self->state;
  for (std::size_t stage = 0; stage < m.stage_micros.size() && stage < s.busy_micros.size();
       ++stage)
    s.busy_micros[stage] += m.stage_micros[stage];
  if (s.core->is_open() && m.epoch == s.pipeline->epoch()) {
    if (m.failure && m.failure->code == errc::stale_epoch) { // redone in the next epoch
      s.why_lost = m.failure->message;
      return;
    }
    s.retries.on_step();
  }
  s.stepped_at = s.options.now();
  s.core->on_sampled(m);
}

// Sends the ticket's request to a gateway that did not create it, so that it can use another head.
void send_recovered(scheduler_pointer self, const resume& m) {
  auto& s = self->state;
  auto recovered = s.reservations->recover(m, s.options.now());
  if (!recovered)
    return;
  const auto gateway = s.options.peers.gateway(m.gateway);
  self->send(gateway, std::move(recovered->reserve));
  self->send(gateway, std::move(recovered->submit));
}

// The detokenizer answers, because it has the text, also of ended tickets.
void on_resume(scheduler_pointer self, const resume& m) {
  auto& s = self->state;
  const bool is_open = s.core->resume(m);
  if (is_open)
    send_recovered(self, m);
  self->send(s.options.detokenizer, resume_text{m, is_open});
}

void on_reserve(scheduler_pointer self, const reserve& m) {
  auto& s = self->state;
  auto answer = s.reservations->reserve(m, s.pipeline->epoch(), s.options.now());
  if (const auto* from = std::get_if<resume>(&answer))
    return on_resume(self, *from);
  const auto to = s.options.peers.gateway(m.gateway);
  if (auto* g = std::get_if<granted>(&answer))
    self->send(to, std::move(*g));
  else
    self->send(to, std::get<rejected>(std::move(answer)));
}

void on_tick(scheduler_pointer self) {
  auto& s = self->state;
  auto now = s.options.now();
  s.core->tick(now);
  self->send(s.options.detokenizer, tick{});
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
  try_trial_step(self);
  if (now - s.reported_at < report_interval)
    return;
  s.reservations->tick(now);
  publish_load(self);
}

// Runs the handler and then pump, which sends what can run next and the results.
template <class Message>
auto then_pump(scheduler_pointer self, void (*handle)(scheduler_pointer, const Message&)) {
  return [self, handle](const Message& m) {
    handle(self, m);
    pump(self);
  };
}

} // namespace

scheduler_actor::behavior_type scheduler(scheduler_pointer self, scheduler_options options) {
  install_fault_handlers(self);
  auto& s = self->state;
  s.options = std::move(options);
  s.core.emplace(s.options.limits);
  s.reservations.emplace(*s.core, s.options.card.name, s.options.limits.resume_window);
  s.pipeline.emplace(s.options.plan.serving, s.options.first_epoch);
  s.pipeline->set_plan(s.options.plan);
  s.busy_micros.resize(s.pipeline->stages());
  s.reported_at = s.options.now();
  return {
      then_pump<reserve>(self, on_reserve),
      [self](const admit& m) {
        self->state.core->admit(m, self->state.options.now());
        pump(self);
      },
      [self](const cancel& m) {
        self->state.core->cancel(m);
        pump(self);
      },
      then_pump<resume>(self, on_resume),
      then_pump<sampled>(self, on_sampled),
      then_pump<stage_ready>(self, on_ready),
      then_pump<epoch_opened>(self, on_opened),
      then_pump<generations>(self, on_generations),
      then_pump<peer_up>(self, on_peer_up),
      then_pump<peer_down>(self, on_peer_down),
      [self](const drain&) {
        self->state.is_draining = true;
        self->state.core->drain();
        publish_status(self);
      },
      [self](const tick&) {
        on_tick(self);
        pump(self);
      },
  };
}

} // namespace baton::actors
