#include "actors/scheduler.hpp"

#include "actors/actor_faults.hpp"
#include "actors/scheduler_epochs.hpp"
#include "actors/scheduler_status.hpp"

namespace baton::actors {
namespace {

// -- after every event: form and send what can run --

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
  ask_to_load(self);
  self->send(s.options.detokenizer, resume_text{m, is_open});
}

void on_reserve(scheduler_pointer self, const reserve& m) {
  auto& s = self->state;
  auto answer = s.reservations->reserve(m, s.pipeline->epoch(), s.options.now());
  if (const auto* from = std::get_if<resume>(&answer))
    return on_resume(self, *from);
  const auto to = s.options.peers.gateway(m.gateway);
  ask_to_load(self);
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
  end_late_epochs(self);
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
      then_pump<load_refused>(self, on_load_refused),
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
