#include "actors/supervision/child_control.hpp"

#include <spdlog/spdlog.h>

namespace baton::actors {

status child_control::status_of(child& c) const {
  const auto& limits = c.policy.limits();
  auto current = c.last;
  current.restarts = c.policy.attempts_total();
  c.recent = c.policy.attempts_recent(config_.now());
  current.supervision = supervision{
      .by = config_.name,
      .strategy = config_.strategy,
      .restarts_max = c.spec.is_elsewhere ? 0 : limits.attempts_max,
      .period_seconds = c.spec.is_elsewhere ? 0 : static_cast<std::uint32_t>(limits.period.count()),
      .restarts_recent = c.recent,
      .has_given_up = c.phase == child_phase::given_up};
  return current;
}

void child_control::give_up(child& c, std::string reason) {
  c.phase = child_phase::given_up;
  children_.record(c, phase::failed, std::move(reason));
  spdlog::error("{}: {}", c.spec.name, c.last.reason);
  config_.escalate(c.last);
}

void child_control::back_off_or_give_up(child& c, const std::string& how) {
  c.pid = 0;
  const auto now = config_.now();
  const bool was_settled = c.ready_at && now - *c.ready_at >= settled_after;
  c.ready_at.reset();
  c.killed_at.reset();
  if (auto delay = c.policy.on_end(now, was_settled)) {
    c.phase = child_phase::backing_off;
    c.due = now + *delay;
    children_.record(c, phase::recovering,
                     fmt::format("{}; restart in {} ms", how, delay->count()));
    spdlog::warn("{} went down: {}; restart in {} ms", c.spec.name, how, delay->count());
    return;
  }
  const auto& limits = c.policy.limits();
  give_up(c, fmt::format("crash_loop: more than {} restarts in {} s; last: {}", limits.attempts_max,
                         limits.period.count(), how));
}

void child_control::start(child& c) {
  c.incarnation = config_.next_incarnation(c.spec.process);
  auto pid = config_.start(c.spec, c.incarnation);
  if (!pid) {
    back_off_or_give_up(c, fmt::format("could not be started: {}", pid.error().message));
    return;
  }
  c.pid = *pid;
  c.phase = child_phase::starting;
  c.due = config_.now() + c.spec.startup_max;
  children_.record(c, phase::starting, "");
  spdlog::info("{} started: pid {}, epoch {}", c.spec.name, c.pid, c.incarnation.value);
}

void child_control::fall_silent(child& c, std::chrono::milliseconds patience) {
  c.phase = child_phase::silent;
  c.silent_since = config_.now();
  c.due = c.silent_since + patience;
  (void)config_.is_starved(c.pid); // starts the measurement
}

// It keeps working and reports its status once its link is up; silent until then.
bool child_control::adopt(child& c) {
  const auto left = config_.adopt ? config_.adopt(c.spec) : std::nullopt;
  if (!left)
    return false;
  c.incarnation = left->incarnation;
  c.pid = left->pid;
  fall_silent(c, config_.adoption_max);
  children_.record(c, phase::recovering, "adopted; not connected yet");
  spdlog::info("{} adopted: pid {}, epoch {}", c.spec.name, c.pid, c.incarnation.value);
  return true;
}

void child_control::ask_to_stop(child& c) {
  c.phase = child_phase::stopping;
  c.due = config_.now() + config_.kill_after * (1 + c.spec.children);
  children_.record(c, phase::draining, "");
  config_.stop(c.spec, c.pid, /*force=*/false);
}

void child_control::await(child& c, phase p, std::string reason) {
  c.pid = 0;
  c.ready_at.reset();
  c.phase = child_phase::waiting;
  children_.record(c, p, std::move(reason));
}

void child_control::kill(child& c) {
  config_.stop(c.spec, c.pid, /*force=*/true);
  c.due = config_.now() + config_.kill_after;
  if (!c.killed_at)
    c.killed_at = config_.now();
}

void child_control::end_silence(child& c) {
  const auto now = config_.now();
  if (now < c.silent_since + config_.starvation_max && config_.is_starved(c.pid)) {
    spdlog::warn("{} does not answer: it is waiting for a CPU", c.spec.name);
    c.due = now + config_.silence_max;
    return;
  }
  spdlog::warn("{} does not answer: killed", c.spec.name);
  kill(c);
}

bool child_control::is_undying(const child& c) const {
  return c.pid != 0 && c.killed_at && !c.is_retiring && !c.spec.is_elsewhere &&
         config_.now() >= *c.killed_at + config_.fence_max;
}

void child_control::adopt_or_start(child& c) {
  if (c.spec.is_elsewhere)
    await(c, phase::starting, "has not joined yet");
  else if (!adopt(c))
    start(c);
}

} // namespace baton::actors
