#include "cluster/bus/exchange.hpp"

#include "cluster/bus/exchange_state.hpp"

#include <spdlog/spdlog.h>

namespace baton::cluster {

exchange::exchange(bus& wire, hello self, exchange_options options)
    : state_(std::make_shared<state>(wire, std::move(self), std::move(options))) {}

exchange::~exchange() {
  stop();
}

void exchange::publish(actor_id id, receiver to) {
  auto shared = std::make_shared<const receiver>(std::move(to));
  std::lock_guard lock(state_->mutex);
  state_->actors.insert_or_assign(id, std::move(shared));
}

void exchange::withdraw(actor_id id) {
  std::shared_ptr<const receiver> dropped_unlocked;
  std::lock_guard lock(state_->mutex);
  auto it = state_->actors.find(id);
  if (it == state_->actors.end())
    return;
  dropped_unlocked = std::move(it->second);
  state_->actors.erase(it);
}

void exchange::on_peer_up(std::function<void(const hello&)> up) {
  state_->up = std::move(up);
}

void exchange::on_peer_down(
    std::function<void(process_id, epoch_id, const std::string& why)> down) {
  state_->down = std::move(down);
}

void exchange::on_turn_over(std::function<bool()> turn_over) {
  state_->turn_over = std::move(turn_over);
}

void exchange::start(instant now) {
  state_->now = now;
  auto* s = state_.get();
  state_->wire.start({
      .received = [s](frames&& f) { s->receive(std::move(f)); },
      .connected = [s](process_id peer) { s->bus_connected(peer); },
      .disconnected = [s](process_id peer, std::string why) { s->bus_disconnected(peer, why); },
      .turn_over = state_->turn_over,
  });
}

void exchange::stop() {
  std::deque<state::notice> untold;
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
  state_->told.wait(lock, [this] { return !state_->is_telling; });
  untold.swap(state_->notices);
  actors.swap(state_->actors);
  for (auto& [node, road] : state_->roads)
    road.waiting.clear(unsent);
  lock.unlock();
}

result<void> exchange::connect(process_id peer, const std::string& endpoint, epoch_id epoch) {
  if (peer == state_->self.process || !peer)
    return fail(errc::bad_config, "process {} is no peer of process {}", peer.value,
                state_->self.process.value);
  state::turn t(*state_);
  auto& r = state_->find_or_add(peer);
  link_effects fx;
  r.to.connect(endpoint, epoch, fx);
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

void exchange::disconnect(process_id peer) {
  state::turn t(*state_);
  auto* r = state_->find(peer);
  if (!r)
    return;
  link_effects fx;
  r->to.disconnect(fx);
  if (!state_->is_stopped)
    state_->wire.disconnect(peer);
  state_->apply(t, *r, fx);
}

bool exchange::is_up(process_id peer) const {
  std::lock_guard lock(state_->mutex);
  auto* r = state_->find(peer);
  return r && r->to.is_up();
}

std::vector<peer_standing> exchange::peers() const {
  std::vector<peer_standing> all;
  std::lock_guard lock(state_->mutex);
  for (const auto& [node, r] : state_->roads) {
    const auto& greeted = r.to.peer_hello();
    all.push_back({node, r.to.life(), r.to.state(), greeted ? greeted->name : std::string(),
                   r.to.endpoint(), r.to.reason(), r.to.peer_steps(), r.to.outstanding_bytes(),
                   r.waiting.count()});
  }
  return all;
}

hello exchange::self() const {
  std::lock_guard lock(state_->mutex);
  return state_->self;
}

void exchange::listen_at(const std::string& endpoint) {
  std::lock_guard lock(state_->mutex);
  state_->self.endpoint = endpoint;
  for (auto& [node, r] : state_->roads)
    r.to.listen_at(endpoint);
}

exchange_counters exchange::counters() const {
  std::lock_guard lock(state_->mutex);
  return state_->counters;
}

void exchange::tick(instant now) {
  const auto steps = state_->options.steps ? state_->options.steps() : 0;
  state::turn t(*state_);
  if (state_->is_stopped)
    return;
  state_->now = now;
  for (auto& [node, r] : state_->roads) {
    link_effects fx;
    r.to.tick(now, steps, fx);
    state_->apply(t, r, fx);
    state_->flush(t, r);
  }
  state_->forget_clients(t);
}

sent exchange::send(process_id peer, actor_id target, message&& m, actor_id source,
                    std::uint64_t correlation) {
  state::turn t(*state_);
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

void exchange::post(process_id peer, actor_id target, message&& m, actor_id source,
                    std::uint64_t correlation) {
  state::turn t(*state_);
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
    state_->wait_in_line(t, *r, {target, source, correlation, std::move(m), size_bytes});
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

void exchange::count_unknown() {
  std::lock_guard lock(state_->mutex);
  ++state_->counters.unknown_actor;
}

} // namespace baton::cluster
