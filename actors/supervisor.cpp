#include "actors/supervisor.hpp"

#include "actors/actor_faults.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace baton::actors {
namespace {

using supervisor_pointer = supervisor_actor::stateful_pointer<supervisor_state>;

status status_of(supervisor_pointer self, child& c) {
  const auto& config = self->state.config;
  const auto& limits = c.policy.limits();
  auto current = c.last;
  current.restarts = c.policy.attempts_total();
  c.recent = c.policy.attempts_recent(config.now());
  current.supervision =
      supervision{config.name,
                  config.strategy,
                  c.spec.is_elsewhere ? 0 : limits.attempts_max,
                  c.spec.is_elsewhere ? 0 : static_cast<std::uint32_t>(limits.period.count()),
                  c.recent,
                  c.phase == child_phase::given_up};
  return current;
}

// Reports the children that have changed since the last report.
void report(supervisor_pointer self) {
  std::vector<status> changed;
  for (auto* c : std::exchange(self->state.unreported, {})) {
    c->is_unreported = false;
    changed.push_back(status_of(self, *c));
  }
  if (!changed.empty())
    self->state.config.changed(changed);
}

void report_all(supervisor_pointer self) {
  std::vector<status> all;
  for (auto& c : self->state.children)
    all.push_back(status_of(self, c));
  self->state.config.changed(all);
}

void record(supervisor_pointer self, child& c, status now) {
  c.last = std::move(now);
  if (!std::exchange(c.is_unreported, true))
    self->state.unreported.push_back(&c);
}

void record(supervisor_pointer self, child& c, phase p, std::string reason) {
  record(
      self, c,
      {c.spec.process, c.incarnation, c.spec.role, c.spec.name, p, std::move(reason), c.pid, 0, 0});
}

void give_up(supervisor_pointer self, child& c, std::string reason) {
  c.phase = child_phase::given_up;
  record(self, c, phase::failed, std::move(reason));
  spdlog::error("{}: {}", c.spec.name, c.last.reason);
  self->state.config.escalate(c.last);
}

void back_off_or_give_up(supervisor_pointer self, child& c, const std::string& how) {
  auto& s = self->state;
  c.pid = 0;
  const auto now = s.config.now();
  const bool was_settled = c.ready_at && now - *c.ready_at >= settled_after;
  c.ready_at.reset();
  c.killed_at.reset();
  if (auto delay = c.policy.on_end(now, was_settled)) {
    c.phase = child_phase::backing_off;
    c.due = now + *delay;
    record(self, c, phase::recovering, fmt::format("{}; restart in {} ms", how, delay->count()));
    spdlog::warn("{} went down: {}; restart in {} ms", c.spec.name, how, delay->count());
    return;
  }
  const auto& limits = c.policy.limits();
  give_up(self, c,
          fmt::format("crash_loop: more than {} restarts in {} s; last: {}", limits.attempts_max,
                      limits.period.count(), how));
}

void start(supervisor_pointer self, child& c) {
  auto& config = self->state.config;
  c.incarnation = config.next_incarnation(c.spec.process);
  auto pid = config.start(c.spec, c.incarnation);
  if (!pid) {
    back_off_or_give_up(self, c, fmt::format("could not be started: {}", pid.error().message));
    return;
  }
  c.pid = *pid;
  c.phase = child_phase::starting;
  c.due = config.now() + c.spec.startup_max;
  record(self, c, phase::starting, "");
  spdlog::info("{} started: pid {}, epoch {}", c.spec.name, c.pid, c.incarnation.value);
}

void fall_silent(supervisor_pointer self, child& c, std::chrono::milliseconds patience) {
  auto& config = self->state.config;
  c.phase = child_phase::silent;
  c.silent_since = config.now();
  c.due = c.silent_since + patience;
  (void)config.is_starved(c.pid); // starts the measurement
}

// It keeps working and reports its status once its link is up; silent until then.
bool adopt(supervisor_pointer self, child& c) {
  auto& config = self->state.config;
  const auto left = config.adopt ? config.adopt(c.spec) : std::nullopt;
  if (!left)
    return false;
  c.incarnation = left->incarnation;
  c.pid = left->pid;
  fall_silent(self, c, config.adoption_max);
  record(self, c, phase::recovering, "adopted; not connected yet");
  spdlog::info("{} adopted: pid {}, epoch {}", c.spec.name, c.pid, c.incarnation.value);
  return true;
}

void ask_to_stop(supervisor_pointer self, child& c) {
  auto& config = self->state.config;
  c.phase = child_phase::stopping;
  c.due = config.now() + config.kill_after * (1 + c.spec.children);
  record(self, c, phase::draining, "");
  config.stop(c.spec, c.pid, /*force=*/false);
}

// Asks the last running child to stop; calls `stopped` if none is left.
void stop_next(supervisor_pointer self) {
  auto& s = self->state;
  for (auto c = s.children.rbegin(); c != s.children.rend(); ++c) {
    if (c->phase == child_phase::stopping)
      return;
    if (c->pid != 0) {
      ask_to_stop(self, *c);
      return;
    }
    c->phase = child_phase::stopped;
  }
  for (const auto& u : s.unkillable)
    spdlog::error("{}: the abandoned process {} has not ended yet", u.name, u.pid);
  report(self);
  s.config.stopped();
}

void await(supervisor_pointer self, child& c, phase p, std::string reason) {
  c.pid = 0;
  c.ready_at.reset();
  c.phase = child_phase::waiting;
  record(self, c, p, std::move(reason));
}

// Its exit is handled as usual. A stopped or hanging process cannot prevent it.
void kill(supervisor_pointer self, child& c) {
  auto& config = self->state.config;
  config.stop(c.spec, c.pid, /*force=*/true);
  c.due = config.now() + config.kill_after;
  if (!c.killed_at)
    c.killed_at = config.now();
}

void end_silence(supervisor_pointer self, child& c) {
  auto& config = self->state.config;
  const auto now = config.now();
  if (now < c.silent_since + config.starvation_max && config.is_starved(c.pid)) {
    spdlog::warn("{} does not answer: it is waiting for a CPU", c.spec.name);
    c.due = now + config.silence_max;
    return;
  }
  spdlog::warn("{} does not answer: killed", c.spec.name);
  kill(self, c);
}

bool is_undying(supervisor_pointer self, const child& c) {
  const auto& s = self->state;
  return c.pid != 0 && c.killed_at && !s.is_stopping && !c.is_retiring && !c.spec.is_elsewhere &&
         s.config.now() >= *c.killed_at + s.config.fence_max;
}

// By strategy: stops the children that must be restarted with `culprit`, last first.
void stop_siblings(supervisor_pointer self, const child& culprit) {
  auto& s = self->state;
  if (s.config.strategy == restart_strategy::one_for_one)
    return;
  const bool is_all = s.config.strategy == restart_strategy::one_for_all;
  for (auto c = s.children.rbegin(); c != s.children.rend(); ++c) {
    if (&*c == &culprit && !is_all)
      return;
    if (c->pid != 0 && c->phase != child_phase::stopping)
      ask_to_stop(self, *c);
  }
}

// With dependent children, each waits for those before it, and for none that was given up.
bool has_to_wait(supervisor_pointer self, const child& c) {
  auto& s = self->state;
  if (s.config.strategy == restart_strategy::one_for_one)
    return false;
  const bool is_all = s.config.strategy == restart_strategy::one_for_all;
  return std::any_of(s.children.begin(), s.children.end(), [&](const child& other) {
    const bool is_before = &other < &c;
    return other.phase == child_phase::stopping ||
           (is_before && other.phase == child_phase::backing_off) ||
           ((is_before || is_all) && other.phase == child_phase::given_up);
  });
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
  s.unkillable.push_back({c.spec.name, c.spec.process, c.incarnation, c.pid});
  back_off_or_give_up(self, c, how);
  stop_siblings(self, c);
}

// True if the exit is that of an abandoned process.
bool is_unkillable_exit(supervisor_pointer self, const child_exited& m) {
  auto& unkillable = self->state.unkillable;
  const auto it =
      std::find_if(unkillable.begin(), unkillable.end(), [&](const unkillable_process& u) {
        return u.process == m.process && u.incarnation == m.incarnation;
      });
  if (it == unkillable.end())
    return false;
  spdlog::info("{}: the abandoned process {} has ended: {}", it->name, it->pid, m.how);
  unkillable.erase(it);
  return true;
}

void on_exit(supervisor_pointer self, const child_exited& m);

void on_tick(supervisor_pointer self) {
  auto& s = self->state;
  auto now = s.config.now();
  bool changed = false;
  for (auto& c : s.children) {
    if (c.recent != c.policy.attempts_recent(now)) { // some attempts left the period
      record(self, c, c.last);
      changed = true;
    }
    if (is_undying(self, c)) {
      abandon_child(self, c);
      changed = true;
    }
    if (c.phase == child_phase::backing_off && !s.is_stopping && now >= c.due &&
        !has_to_wait(self, c)) {
      start(self, c);
      changed = true;
    } else if (c.phase == child_phase::stopping && c.spec.is_elsewhere && now >= c.due) {
      return on_exit(self, {c.spec.process, c.incarnation, "did not stop in time", false});
    } else if (c.phase == child_phase::stopping && now >= c.due) {
      spdlog::warn("{} did not stop in time: killed", c.spec.name);
      kill(self, c);
    } else if (c.phase == child_phase::starting && c.spec.startup_max.count() > 0 &&
               !s.is_stopping && now >= c.due) {
      spdlog::warn("{} was not ready within {} ms: killed", c.spec.name,
                   c.spec.startup_max.count());
      kill(self, c);
    } else if (c.phase == child_phase::silent && !s.is_stopping && now >= c.due) {
      end_silence(self, c);
    }
  }
  if (changed)
    report(self);
}

child* find(supervisor_pointer self, process_id process) {
  const auto c = self->state.by_process.find(process);
  return c == self->state.by_process.end() ? nullptr : c->second;
}

// After children were added or removed: their addresses have changed.
void reindex(supervisor_pointer self) {
  auto& s = self->state;
  s.by_process.clear();
  s.unreported.clear();
  for (auto& c : s.children) {
    s.by_process.emplace(c.spec.process, &c);
    if (c.is_unreported)
      s.unreported.push_back(&c);
  }
}

child first_seen(const child_spec& spec) {
  return {spec, schedule::retry_policy(spec.intensity), {}, {}, 0, {}, {}, {}, {}, {}, {}, {}, {},
          {}};
}

void adopt_or_start(supervisor_pointer self, child& c) {
  if (c.spec.is_elsewhere)
    await(self, c, phase::starting, "has not joined yet");
  else if (!adopt(self, c))
    start(self, c);
}

void add_child(supervisor_pointer self, const child_spec& spec) {
  self->state.children.push_back(first_seen(spec));
  reindex(self);
  adopt_or_start(self, self->state.children.back());
}

void retire(supervisor_pointer self, child& c) {
  const auto spec = c.spec;
  const bool is_wanted_again = c.is_wanted_again;
  std::erase_if(self->state.children,
                [&](const child& x) { return x.spec.process == spec.process; });
  reindex(self);
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
  for (auto& c : s.children) {
    c.is_wanted_again = c.is_retiring && is_wanted(c.spec.process);
    if (!c.is_retiring && !is_wanted(c.spec.process))
      unwanted.push_back(c.spec.process);
  }
  for (const auto process : unwanted) {
    auto* c = find(self, process);
    if (c->pid == 0) {
      retire(self, *c);
      continue;
    }
    c->is_retiring = true;
    if (c->phase != child_phase::stopping) {
      ask_to_stop(self, *c);
      c->due = std::max(c->due, s.config.now() + c->spec.retire_max);
    }
  }
  for (const auto& spec : m.all)
    if (find(self, spec.process) == nullptr)
      add_child(self, spec);
  report(self);
}

child* find_elsewhere(supervisor_pointer self, process_id process) {
  auto* c = find(self, process);
  return c != nullptr && c->spec.is_elsewhere ? c : nullptr;
}

child* find(supervisor_pointer self, process_id process, epoch_id incarnation) {
  auto* c = find(self, process);
  return c != nullptr && c->incarnation == incarnation ? c : nullptr;
}

void on_exit(supervisor_pointer self, const child_exited& m) {
  auto& s = self->state;
  if (is_unkillable_exit(self, m))
    return;
  auto* c = find(self, m.process, m.incarnation);
  if (c == nullptr || c->pid == 0)
    return;
  if (s.is_stopping) {
    c->pid = 0;
    c->phase = child_phase::stopped;
    record(self, *c, phase::stopped, m.how);
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
    record(self, *c, phase::recovering, m.how);
  } else {
    c->pid = 0;
    if (m.is_permanent)
      give_up(self, *c, m.how);
    else
      back_off_or_give_up(self, *c, m.how);
    stop_siblings(self, *c);
  }
  on_tick(self); // a first restart has no delay
  report(self);
}

// A dead child's link fails too: its exit and this event may come in either order.
void on_peer_down(supervisor_pointer self, const peer_down& m) {
  auto* c = find(self, m.process, m.incarnation);
  if (c != nullptr && c->spec.is_elsewhere) {
    if (self->state.is_stopping || c->is_retiring)
      return on_exit(self, {m.process, m.incarnation, m.why, false});
    await(self, *c, phase::recovering, fmt::format("cannot be reached: {}", m.why));
    return report(self);
  }
  if (c == nullptr || (c->phase != child_phase::starting && c->phase != child_phase::running))
    return;
  fall_silent(self, *c, self->state.config.silence_max);
  record(self, *c, phase::recovering, fmt::format("does not answer: {}", m.why));
  report(self);
}

// Children report their own status. A root that connects may be a new one, without any state.
void on_peer_up(supervisor_pointer self, const hello& peer) {
  if (auto* other = find_elsewhere(self, peer.process);
      other != nullptr && !self->state.is_stopping) {
    other->incarnation = peer.incarnation;
    other->pid = peer.pid;
    other->phase = child_phase::starting;
    record(self, *other, phase::starting, "");
    if (other->is_retiring) // it may not have received the order
      ask_to_stop(self, *other);
    return report(self);
  }
  auto* c = find(self, peer.process, peer.incarnation);
  if (c == nullptr && peer.role == role::root)
    report_all(self);
  else if (c != nullptr && c->phase == child_phase::silent) {
    c->phase = child_phase::starting;
    c->due = self->state.config.now() + c->spec.startup_max;
  }
}

void on_status(supervisor_pointer self, const status& m) {
  auto* c = find(self, m.process, m.incarnation);
  if (auto* far = find_elsewhere(self, m.process);
      far != nullptr && !m.incarnation && far->pid == 0)
    c = far; // status without incarnation: of a child that has not joined
  if (c == nullptr)
    return;
  if (m.phase == phase::ready && c->phase == child_phase::starting) {
    c->phase = child_phase::running;
    c->ready_at = self->state.config.now();
  }
  auto now = m;
  now.incarnation = c->incarnation; // otherwise receivers would treat it as older than the last
  now.pid = c->pid;
  record(self, *c, std::move(now));
  report(self);
}

} // namespace

supervisor_actor::behavior_type supervisor(supervisor_pointer self, supervisor_config config) {
  install_fault_handlers(self);
  auto& s = self->state;
  s.config = std::move(config);
  for (const auto& spec : s.config.children)
    s.children.push_back(first_seen(spec));
  reindex(self);
  for (auto& c : s.children)
    adopt_or_start(self, c);
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
