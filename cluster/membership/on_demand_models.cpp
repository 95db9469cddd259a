#include "cluster/membership/on_demand_models.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace baton::cluster {

on_demand_models::on_demand_models(std::vector<on_demand_model> models, std::uint32_t loaded_max,
                                   outside to)
    : loaded_max_(loaded_max), to_(std::move(to)) {
  for (auto& m : models) {
    const auto pipeline = m.pipeline;
    all_[pipeline].model = std::move(m);
  }
}

void on_demand_models::enter(entry& e, phase next, time_point now) {
  e.loads.phase = next;
  e.since = now;
}

void on_demand_models::order_load(std::uint32_t pipeline, done_callback done, time_point now) {
  auto& e = all_.at(pipeline);
  if (e.loads_waiting.size() >= orders_waiting_max)
    return done(fail(errc::overloaded, "{} orders to load the model wait", orders_waiting_max));
  e.loads_waiting.push_back(std::move(done));
  e.wanted_since = e.wanted_since.value_or(now);
}

void on_demand_models::order_unload(std::uint32_t pipeline, done_callback done, time_point now) {
  auto& e = all_.at(pipeline);
  if (e.model.is_pinned)
    return done(fail(errc::conflict, "the model '{}' is pinned in nodes.toml", e.model.name));
  if (e.open_requests > 0 || e.loads.phase == phase::loading)
    return done(
        fail(errc::conflict, "the model '{}' has open requests, or is being loaded", e.model.name));
  if (e.unloads_waiting.size() >= orders_waiting_max)
    return done(fail(errc::overloaded, "{} orders to unload the model wait", orders_waiting_max));
  e.unloads_waiting.push_back(std::move(done));
  if (e.loads.phase == phase::ready && !unload(e, now))
    for (const auto& each : std::exchange(e.unloads_waiting, {}))
      each(fail(errc::conflict, "the plan of model '{}' is being changed", e.model.name));
}

// Answers the orders whose model is where they want it.
void on_demand_models::finish_orders(entry& e) {
  if (e.loads.phase == phase::ready)
    for (const auto& done : std::exchange(e.loads_waiting, {}))
      done({});
  if (e.loads.phase == phase::unloaded)
    for (const auto& done : std::exchange(e.unloads_waiting, {}))
      done({});
}

void on_demand_models::keep(std::uint32_t pipeline, std::chrono::milliseconds keep_alive,
                            time_point now) {
  auto& e = all_.at(pipeline);
  e.keep_alive = keep_alive;
  e.restored.reset();
  e.used_at = now;
}

kept_models on_demand_models::kept() const {
  kept_models all;
  for (const auto& [pipeline, e] : all_)
    if (const auto& time = e.restored ? e.restored : e.keep_alive)
      all.emplace(e.model.name, *time);
  return all;
}

void on_demand_models::restore(const kept_models& kept) {
  for (auto& [pipeline, e] : all_)
    if (const auto found = kept.find(e.model.name); found != kept.end())
      e.restored = found->second;
}

std::optional<std::chrono::milliseconds> on_demand_models::keep_alive_of(const entry& e) {
  if (e.model.is_pinned || (e.keep_alive && e.keep_alive->count() < 0))
    return std::nullopt;
  if (e.keep_alive)
    return std::max(*e.keep_alive, keep_alive_min);
  return e.model.idle_timeout.count() > 0 ? std::optional(e.model.idle_timeout) : std::nullopt;
}

bool on_demand_models::is_due(const entry& e, time_point now) {
  const auto keep_alive = keep_alive_of(e);
  return e.loads.phase == phase::ready && e.open_requests == 0 && keep_alive &&
         now - e.used_at >= *keep_alive;
}

void on_demand_models::on_load(std::uint32_t pipeline, std::uint32_t open_requests,
                               time_point now) {
  const auto it = all_.find(pipeline);
  if (it == all_.end())
    return;
  auto& e = it->second;
  if (e.open_requests > 0 || open_requests > 0)
    e.used_at = now;
  e.open_requests = open_requests;
  if (open_requests == 0 && e.loads_waiting.empty())
    e.wanted_since.reset();
  else
    e.wanted_since = e.wanted_since.value_or(now);
}

void on_demand_models::observe(std::uint32_t pipeline, const observed& plan, time_point now) {
  const auto it = all_.find(pipeline);
  if (it == all_.end())
    return;
  auto& e = it->second;
  if (plan.is_serving && e.loads.phase != phase::ready) { // also at the start of a root
    if (e.loads.phase == phase::loading) {
      e.loads.load_seconds = std::chrono::duration<double>(now - e.since).count();
      spdlog::info("model {} is loaded, after {:.3f} s", e.model.name, e.loads.load_seconds);
    }
    e.retries.on_success();
    e.used_at = now;
    if (const auto before = std::exchange(e.restored, std::nullopt))
      e.keep_alive = before;
    if (e.open_requests == 0)
      e.wanted_since.reset();
    enter(e, phase::ready, now);
  } else if (plan.is_coming && e.loads.phase == phase::unloaded) {
    enter(e, phase::loading, now); // an earlier root began it
  } else if (!plan.is_serving && !plan.is_coming && e.loads.phase == phase::ready) {
    enter(e, phase::unloaded, now); // its nodes were drained
  } else if (!plan.is_serving && !plan.is_coming && e.loads.phase == phase::loading) {
    fail_load(e, fail(errc::not_ready, "{}", plan.outcome), now);
  }
}

void on_demand_models::on_gone(std::uint32_t pipeline) {
  const auto it = all_.find(pipeline);
  if (it != all_.end() && it->second.loads.phase == phase::draining)
    it->second.loads.phase = phase::unloaded;
}

std::optional<std::uint32_t> on_demand_models::find(const std::string& name) const {
  for (const auto& [pipeline, e] : all_)
    if (e.model.name == name)
      return pipeline;
  return std::nullopt;
}

std::map<std::uint32_t, model_loads>
on_demand_models::snapshot(std::chrono::milliseconds wall_clock) const {
  std::map<std::uint32_t, model_loads> all;
  for (const auto& [pipeline, e] : all_) {
    auto loads = e.loads;
    if (const auto keep_alive = keep_alive_of(e))
      loads.keep_alive = keep_alive->count();
    if (loads.phase == phase::ready && e.open_requests == 0)
      loads.idle_since =
          std::chrono::floor<std::chrono::milliseconds>(e.used_at.time_since_epoch() + wall_clock)
              .count();
    all.emplace(pipeline, std::move(loads));
  }
  return all;
}

void on_demand_models::decide(time_point now) {
  for (auto& [pipeline, e] : all_) {
    if (e.loads.phase == phase::draining && now - e.since >= unload_patience)
      enter(e, phase::unloaded, now);
    if (is_due(e, now) && unload(e, now))
      ++e.loads.idle_unloads;
  }
  for (auto& one : all_)
    finish_orders(one.second);
  std::vector<entry*> wanted;
  for (auto& [pipeline, e] : all_)
    if (e.loads.phase == phase::unloaded && e.wanted_since)
      wanted.push_back(&e);
  std::sort(wanted.begin(), wanted.end(),
            [](const entry* a, const entry* b) { return *a->wanted_since < *b->wanted_since; });
  for (auto* e : wanted)
    if (e->paused_until && now < *e->paused_until)
      refuse(*e, fail(errc::not_ready, "the model cannot be loaded: {}", e->failure));
    else
      try_load(*e, now);
}

// Makes room first if there is none. Requests wait while other models are busy or are ending.
void on_demand_models::try_load(entry& e, time_point now) {
  auto why = in_memory() < loaded_max_
                 ? to_.load(e.model.pipeline)
                 : result<void>(fail(errc::does_not_fit, "{} models are loaded, which is the limit",
                                     loaded_max_));
  if (why) {
    ++e.loads.loads;
    e.restored.reset();
    spdlog::info("model {} is being loaded", e.model.name);
    return enter(e, phase::loading, now);
  }
  if (why.error().code == errc::conflict)
    return; // its last change is not over
  if (why.error().code != errc::does_not_fit)
    return fail_load(e, why.error(), now);
  if (is_any(phase::draining))
    return; // room is on its way
  if (auto* v = victim()) {
    spdlog::info("model {} makes room for {}: {}", v->model.name, e.model.name,
                 why.error().message);
    if (unload(*v, now))
      ++v->loads.evictions;
  } else if (!may_get_room()) {
    fail_load(e, why.error(), now);
  }
}

// The idle one that was used least recently. Null: none may go.
on_demand_models::entry* on_demand_models::victim() {
  entry* oldest = nullptr;
  for (auto& [pipeline, e] : all_)
    if (e.loads.phase == phase::ready && e.open_requests == 0 && !e.model.is_pinned &&
        (oldest == nullptr || e.used_at < oldest->used_at))
      oldest = &e;
  return oldest;
}

// Whether a model in memory may leave it later.
bool on_demand_models::may_get_room() const {
  return std::any_of(all_.begin(), all_.end(), [](const auto& one) {
    const auto& e = one.second;
    return e.loads.phase != phase::unloaded && !e.model.is_pinned;
  });
}

bool on_demand_models::is_any(phase now) const {
  return std::any_of(all_.begin(), all_.end(),
                     [now](const auto& one) { return one.second.loads.phase == now; });
}

std::size_t on_demand_models::in_memory() const {
  return static_cast<std::size_t>(std::count_if(all_.begin(), all_.end(), [](const auto& one) {
    return one.second.loads.phase != phase::unloaded;
  }));
}

bool on_demand_models::unload(entry& e, time_point now) {
  if (auto ok = to_.unload(e.model.pipeline); !ok) {
    spdlog::warn("model {} stays loaded: {}", e.model.name, ok.error().message);
    e.used_at = now; // tried again after idle_timeout
    return false;
  }
  spdlog::info("model {} is unloaded", e.model.name);
  e.keep_alive.reset();
  enter(e, phase::draining, now);
  return true;
}

void on_demand_models::fail_load(entry& e, error why, time_point now) {
  ++e.loads.failures;
  spdlog::warn("model {} cannot be loaded: {}", e.model.name, why.message);
  e.failure = why.message;
  e.paused_until =
      now + e.retries.on_end(now, /*was_of_use=*/false).value_or(e.retries.pause_max());
  enter(e, phase::unloaded, now);
  refuse(e, why);
}

// The head ends its waiting requests; its next report says what it has then.
void on_demand_models::refuse(entry& e, const error& why) {
  for (const auto& done : std::exchange(e.loads_waiting, {}))
    done(why);
  if (e.open_requests > 0)
    to_.refuse(e.model.pipeline, why);
  e.open_requests = 0;
  e.wanted_since.reset();
}

} // namespace baton::cluster
