#include "cluster/bus/message_router.hpp"

#include "cluster/bus/message_router_state.hpp"

#include <spdlog/spdlog.h>

namespace baton::cluster {

message_router::message_router(bus& wire, hello self, message_router_options options)
    : state_(std::make_shared<state>(wire, std::move(self), std::move(options))) {}

message_router::~message_router() {
  stop();
}

void message_router::publish(actor_id id, receiver to) {
  auto shared = std::make_shared<const receiver>(std::move(to));
  std::lock_guard lock(state_->mutex);
  state_->actors.insert_or_assign(id, std::move(shared));
}

void message_router::withdraw(actor_id id) {
  std::shared_ptr<const receiver> dropped_unlocked;
  std::lock_guard lock(state_->mutex);
  auto it = state_->actors.find(id);
  if (it == state_->actors.end())
    return;
  dropped_unlocked = std::move(it->second);
  state_->actors.erase(it);
}

void message_router::on_peer_up(std::function<void(const hello&)> up) {
  state_->up = std::move(up);
}

void message_router::on_peer_down(
    std::function<void(process_id, incarnation_id, const std::string& why)> down) {
  state_->down = std::move(down);
}

void message_router::on_round_over(std::function<bool()> round_over) {
  state_->round_over = std::move(round_over);
}

void message_router::start(instant now) {
  state_->now = now;
  auto* s = state_.get();
  state_->wire.start({
      .received = [s](frames&& f) { s->receive(std::move(f)); },
      .connected = [s](process_id peer) { s->bus_connected(peer); },
      .disconnected = [s](process_id peer, std::string why) { s->bus_disconnected(peer, why); },
      .round_over = state_->round_over,
  });
}

void message_router::stop() {
  std::deque<state::bus_event> undelivered;
  std::vector<message> unsent;
  std::map<actor_id, std::shared_ptr<const receiver>> actors;
  {
    std::lock_guard lock(state_->mutex);
    if (state_->is_stopped)
      return;
    state_->is_stopped = true;
  }
  state_->wire.stop();
  std::unique_lock lock(state_->mutex);
  state_->delivery_ended.wait(lock, [this] { return !state_->is_delivering; });
  undelivered.swap(state_->pending_events);
  actors.swap(state_->actors);
  for (auto& [process, peer_route] : state_->peer_routes)
    peer_route.waiting.clear(unsent);
  lock.unlock();
}

result<void> message_router::connect(process_id peer, const std::string& endpoint,
                                     incarnation_id incarnation) {
  if (peer == state_->self.process || !peer)
    return fail(errc::bad_config, "process {} is no peer of process {}", peer.value,
                state_->self.process.value);
  state::locked_scope t(*state_);
  auto& r = state_->find_or_add(peer);
  link_effects fx;
  r.to.connect(endpoint, incarnation, fx);
  if (fx.connect) {
    // The caller gets errors of the endpoint here; apply() would only log them.
    if (auto made = state_->wire.connect(peer, *fx.connect); !made) {
      fx.connect.reset();
      r.to.disconnect(fx);
      state_->apply(t, r, fx);
      return made.error();
    }
    fx.connect.reset();
  }
  state_->apply(t, r, fx);
  return {};
}

void message_router::disconnect(process_id peer) {
  state::locked_scope t(*state_);
  auto* r = state_->find(peer);
  if (!r)
    return;
  link_effects fx;
  r->to.disconnect(fx);
  if (!state_->is_stopped)
    state_->wire.disconnect(peer);
  state_->apply(t, *r, fx);
}

bool message_router::is_up(process_id peer) const {
  std::lock_guard lock(state_->mutex);
  auto* r = state_->find(peer);
  return r && r->to.is_up();
}

std::vector<peer_state> message_router::peers() const {
  std::vector<peer_state> all;
  std::lock_guard lock(state_->mutex);
  for (const auto& [process, r] : state_->peer_routes) {
    const auto& greeted = r.to.peer_hello();
    all.push_back({.process = process,
                   .incarnation = r.to.incarnation(),
                   .state = r.to.state(),
                   .name = greeted ? greeted->name : std::string(),
                   .endpoint = r.to.endpoint(),
                   .reason = r.to.reason(),
                   .steps = r.to.peer_steps(),
                   .outstanding_bytes = r.to.outstanding_bytes(),
                   .waiting_count = r.waiting.count()});
  }
  return all;
}

hello message_router::self() const {
  std::lock_guard lock(state_->mutex);
  return state_->self;
}

void message_router::listen_at(const std::string& endpoint) {
  std::lock_guard lock(state_->mutex);
  state_->self.endpoint = endpoint;
  for (auto& [process, r] : state_->peer_routes)
    r.to.listen_at(endpoint);
}

message_router_counters message_router::counters() const {
  std::lock_guard lock(state_->mutex);
  return state_->counters;
}

void message_router::tick(instant now) {
  const auto steps = state_->options.steps ? state_->options.steps() : 0;
  state::locked_scope t(*state_);
  if (state_->is_stopped)
    return;
  state_->now = now;
  for (auto& [process, r] : state_->peer_routes) {
    link_effects fx;
    r.to.tick(now, steps, fx);
    state_->apply(t, r, fx);
    state_->flush(t, r);
  }
  state_->forget_clients(t);
}

sent message_router::send(process_id peer, actor_id target, message&& m, actor_id source,
                          std::uint64_t correlation) {
  state::locked_scope t(*state_);
  auto* r = state_->find(peer);
  if (!r)
    return sent::unknown_peer;
  if (state_->is_stopped || !r->to.is_up())
    return sent::down;
  auto outcome = sent::back_pressure;
  std::size_t size_bytes = 0;
  if (r->waiting.of(kind_of(m)).empty())
    outcome = state_->transmit(*r, target, source, correlation, m, {}, size_bytes);
  if (outcome == sent::ok)
    t.discarded.push_back(std::move(m));
  else if (outcome == sent::back_pressure)
    ++state_->counters.back_pressure;
  return outcome;
}

void message_router::post(process_id peer, actor_id target, message&& m, actor_id source,
                          std::uint64_t correlation) {
  state::locked_scope t(*state_);
  auto* r = state_->find(peer);
  if (!r || state_->is_stopped || !r->to.is_up()) {
    ++state_->counters.dropped;
    t.discarded.push_back(std::move(m));
    return;
  }
  auto outcome = sent::back_pressure;
  std::size_t size_bytes = 0;
  if (r->waiting.of(kind_of(m)).empty())
    outcome = state_->transmit(*r, target, source, correlation, m, {}, size_bytes);
  else
    size_bytes = encode(r->to.stamp(target, source, correlation, kind_of(m)), m).size_bytes();
  switch (outcome) {
  case sent::back_pressure:
    ++state_->counters.back_pressure;
    state_->enqueue(t, *r,
                    {.target = target,
                     .source = source,
                     .correlation = correlation,
                     .content = std::move(m),
                     .size_bytes = size_bytes});
    return;
  case sent::too_large:
    state_->lose(t, *r,
                 fmt::format("a {} of {} bytes exceeds the size limit of a message",
                             name_of(kind_of(m)), size_bytes));
    [[fallthrough]];
  case sent::down:
  case sent::unknown_peer:
    ++state_->counters.dropped;
    [[fallthrough]];
  case sent::ok:
    t.discarded.push_back(std::move(m));
  }
}

void message_router::count_unknown() {
  std::lock_guard lock(state_->mutex);
  ++state_->counters.unknown_actor;
}

} // namespace baton::cluster
