#include "actors/supervision/supervisor.hpp"

#include "actors/actor_faults.hpp"
#include "actors/supervision/sibling_rules.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace baton::actors {
namespace {

using supervisor_pointer = supervisor_actor::stateful_pointer<supervisor_state>;

// Reports the children that have changed since the last report.
void report(supervisor_pointer self) {
  auto& s = self->state;
  std::vector<status> changed;
  for (auto* c : s.children.take_unreported())
    changed.push_back(s.control->status_of(*c));
  if (!changed.empty())
    s.config.changed(changed);
}

void report_all(supervisor_pointer self) {
  auto& s = self->state;
  std::vector<status> all;
  for (auto& c : s.children.all())
    all.push_back(s.control->status_of(c));
  s.config.changed(all);
}

// Asks the last running child to stop; calls `stopped` if none is left.
void stop_next(supervisor_pointer self) {
  auto& s = self->state;
  auto& all = s.children.all();
  for (auto c = all.rbegin(); c != all.rend(); ++c) {
    if (c->phase == child_phase::stopping)
      return;
    if (c->pid != 0) {
      s.control->ask_to_stop(*c);
      return;
    }
    c->phase = child_phase::stopped;
  }
  s.abandoned.log();
  report(self);
  s.config.stopped();
}

void stop_siblings(supervisor_pointer self, const child& culprit) {
  auto& s = self->state;
  for (auto* c : stopped_with(s.children.all(), culprit, s.config.strategy))
    s.control->ask_to_stop(*c);
}

// Starts the next incarnation beside the old one, without sharing its resources. If that is
// impossible, the old one is killed again.
void abandon_child(supervisor_pointer self, child& c) {
  auto& s = self->state;
  if (!s.config.abandon(c.spec)) {
    c.killed_at = s.config.now();
    return;
  }
  const auto how = fmt::format("pid {} did not end within {} ms of SIGKILL: left behind", c.pid,
                               s.config.fence_max.count());
  s.abandoned.add(c);
  s.control->back_off_or_give_up(c, how);
  stop_siblings(self, c);
}

void on_exit(supervisor_pointer self, const child_exited& m);

void on_tick(supervisor_pointer self) {
  auto& s = self->state;
  auto now = s.config.now();
  bool changed = false;
  for (auto& c : s.children.all()) {
    if (c.recent != c.policy.attempts_recent(now)) { // some attempts left the period
      s.children.record(c, c.last);
      changed = true;
    }
    if (!s.is_stopping && s.control->is_undying(c)) {
      abandon_child(self, c);
      changed = true;
    }
    if (c.phase == child_phase::backing_off && !s.is_stopping && now >= c.due &&
        !has_to_wait(s.children.all(), c, s.config.strategy)) {
      s.control->start(c);
      changed = true;
    } else if (c.phase == child_phase::stopping && c.spec.is_elsewhere && now >= c.due) {
      return on_exit(self, {.process = c.spec.process,
                            .incarnation = c.incarnation,
                            .how = "did not stop in time",
                            .is_permanent = false});
    } else if (c.phase == child_phase::stopping && now >= c.due) {
      spdlog::warn("{} did not stop in time: killed", c.spec.name);
      s.control->kill(c);
    } else if (c.phase == child_phase::starting && c.spec.startup_max.count() > 0 &&
               !s.is_stopping && now >= c.due) {
      spdlog::warn("{} was not ready within {} ms: killed", c.spec.name,
                   c.spec.startup_max.count());
      s.control->kill(c);
    } else if (c.phase == child_phase::silent && !s.is_stopping && now >= c.due) {
      s.control->end_silence(c);
    }
  }
  if (changed)
    report(self);
}

void add_child(supervisor_pointer self, const child_spec& spec) {
  auto& s = self->state;
  s.control->adopt_or_start(s.children.add(spec));
}

void retire(supervisor_pointer self, child& c) {
  const auto spec = c.spec;
  const bool is_wanted_again = c.is_wanted_again;
  self->state.children.remove(spec.process);
  self->state.config.retired(spec);
  if (is_wanted_again)
    add_child(self, spec);
}

void on_wanted(supervisor_pointer self, const wanted_children& m) {
  auto& s = self->state;
  if (s.is_stopping)
    return;
  const auto is_wanted = [&](process_id process) {
    return std::any_of(m.all.begin(), m.all.end(),
                       [&](const child_spec& x) { return x.process == process; });
  };
  std::vector<process_id> unwanted;
  for (auto& c : s.children.all()) {
    c.is_wanted_again = c.is_retiring && is_wanted(c.spec.process);
    if (!c.is_retiring && !is_wanted(c.spec.process))
      unwanted.push_back(c.spec.process);
  }
  for (const auto process : unwanted) {
    auto* c = s.children.find(process);
    if (c->pid == 0) {
      retire(self, *c);
      continue;
    }
    c->is_retiring = true;
    if (c->phase != child_phase::stopping) {
      s.control->ask_to_stop(*c);
      c->due = std::max(c->due, s.config.now() + c->spec.retire_max);
    }
  }
  for (const auto& spec : m.all)
    if (s.children.find(spec.process) == nullptr)
      add_child(self, spec);
  report(self);
}

void on_exit(supervisor_pointer self, const child_exited& m) {
  auto& s = self->state;
  if (s.abandoned.take_exit(m))
    return;
  auto* c = s.children.find(m.process, m.incarnation);
  if (c == nullptr || c->pid == 0)
    return;
  if (s.is_stopping) {
    c->pid = 0;
    c->phase = child_phase::stopped;
    s.children.record(*c, phase::stopped, m.how);
    if (c->is_retiring) // the only report that it has ended for good
      s.config.retired(c->spec);
    stop_next(self);
    return;
  }
  if (c->is_retiring) {
    retire(self, *c);
    return report(self);
  }
  if (c->phase == child_phase::stopping) { // stopped with a sibling: does not count as a failure
    c->pid = 0;
    c->ready_at.reset();
    c->killed_at.reset();
    c->phase = child_phase::backing_off;
    c->due = s.config.now();
    s.children.record(*c, phase::recovering, m.how);
  } else {
    c->pid = 0;
    if (m.is_permanent)
      s.control->give_up(*c, m.how);
    else
      s.control->back_off_or_give_up(*c, m.how);
    stop_siblings(self, *c);
  }
  on_tick(self); // a first restart has no delay
  report(self);
}

// A dead child's link fails too: its exit and this event may come in either order.
void on_peer_down(supervisor_pointer self, const peer_down& m) {
  auto& s = self->state;
  auto* c = s.children.find(m.process, m.incarnation);
  if (c != nullptr && c->spec.is_elsewhere) {
    if (s.is_stopping || c->is_retiring)
      return on_exit(self, {.process = m.process,
                            .incarnation = m.incarnation,
                            .how = m.why,
                            .is_permanent = false});
    s.control->await(*c, phase::recovering, fmt::format("cannot be reached: {}", m.why));
    return report(self);
  }
  if (c == nullptr || (c->phase != child_phase::starting && c->phase != child_phase::running))
    return;
  s.control->fall_silent(*c, s.config.silence_max);
  s.children.record(*c, phase::recovering, fmt::format("does not answer: {}", m.why));
  report(self);
}

// Children report their own status. A root that connects may be a new one, without any state.
void on_peer_up(supervisor_pointer self, const hello& peer) {
  auto& s = self->state;
  if (auto* other = s.children.find_elsewhere(peer.process); other != nullptr && !s.is_stopping) {
    other->incarnation = peer.incarnation;
    other->pid = peer.pid;
    other->phase = child_phase::starting;
    s.children.record(*other, phase::starting, "");
    if (other->is_retiring) // it may not have received the order
      s.control->ask_to_stop(*other);
    return report(self);
  }
  auto* c = s.children.find(peer.process, peer.incarnation);
  if (c == nullptr && peer.role == role::root)
    report_all(self);
  else if (c != nullptr && c->phase == child_phase::silent) {
    c->phase = child_phase::starting;
    c->due = s.config.now() + c->spec.startup_max;
  }
}

void on_status(supervisor_pointer self, const status& m) {
  auto& s = self->state;
  auto* c = s.children.find(m.process, m.incarnation);
  if (auto* far = s.children.find_elsewhere(m.process);
      far != nullptr && !m.incarnation && far->pid == 0)
    c = far; // status without incarnation: of a child that has not joined
  if (c == nullptr)
    return;
  if (m.phase == phase::ready && c->phase == child_phase::starting) {
    c->phase = child_phase::running;
    c->ready_at = s.config.now();
  }
  auto now = m;
  now.incarnation = c->incarnation; // otherwise receivers would treat it as older than the last
  now.pid = c->pid;
  s.children.record(*c, std::move(now));
  report(self);
}

} // namespace

supervisor_actor::behavior_type supervisor(supervisor_pointer self, supervisor_config config) {
  install_fault_handlers(self);
  auto& s = self->state;
  s.config = std::move(config);
  s.control.emplace(s.config, s.children);
  for (const auto& spec : s.config.children)
    s.children.add(spec);
  for (auto& c : s.children.all())
    s.control->adopt_or_start(c);
  report(self);
  return {
      [self](const status& m) { on_status(self, m); },
      [self](const drain&) {
        if (std::exchange(self->state.is_stopping, true))
          return;
        stop_next(self);
      },
      [self](const child_exited& m) { on_exit(self, m); },
      [self](const wanted_children& m) { on_wanted(self, m); },
      [self](const peer_up& m) { on_peer_up(self, m.peer); },
      [self](const peer_down& m) { on_peer_down(self, m); },
      [self](const tick&) { on_tick(self); },
  };
}

} // namespace baton::actors
