#include "cluster/bus/message_router_state.hpp"

#include <spdlog/spdlog.h>

namespace baton::cluster {
namespace {

// The credit of one received data message. It is released when the last copy of the message is
// destroyed, on any thread, even after the router is gone.
template <class State>
struct loan {
  std::weak_ptr<State> lender;
  process_id peer;
  std::uint64_t intake = 0;
  std::size_t size_bytes = 0;

  loan(std::weak_ptr<State> l, process_id p, std::uint64_t i, std::size_t s)
      : lender(std::move(l)), peer(p), intake(i), size_bytes(s) {}
  loan(const loan&) = delete;
  loan& operator=(const loan&) = delete;
  ~loan() {
    if (auto alive = lender.lock())
      alive->release(peer, intake, size_bytes);
  }
};

// Returns the lease if the message cannot hold one; then it is released after the delivery.
lease attach(message& m, lease l) {
  std::visit(
      [&](auto& content) {
        if constexpr (requires { content.lease = std::move(l); })
          content.lease = std::exchange(l, nullptr);
      },
      m);
  return l;
}

} // namespace

message_router::state::locked_scope::~locked_scope() {
  const bool has_news = !state_.pending_events.empty() && !state_.is_delivering;
  lock_.unlock();
  if (has_news)
    state_.deliver_events();
}

message_router::state::state(bus& b, hello h, message_router_options o)
    : wire(b), self(std::move(h)), options(std::move(o)), now(std::chrono::steady_clock::now()) {
  ENSURE(self.process && self.incarnation, "a process without id or incarnation");
}

message_router::state::peer_route* message_router::state::find(process_id peer) {
  auto it = peer_routes.find(peer);
  return it == peer_routes.end() ? nullptr : &it->second;
}

message_router::state::peer_route& message_router::state::find_or_add(process_id peer) {
  if (auto* known = find(peer))
    return *known;
  const auto intake = forgotten_routes << 32U;
  return peer_routes.emplace(peer, peer_route{link(self, peer, options.link, now, intake), {}})
      .first->second;
}

void message_router::state::forget_clients(locked_scope& t) {
  for (auto it = peer_routes.begin(); it != peer_routes.end();) {
    auto& [process, r] = *it;
    if (!r.to.is_gone(now)) {
      ++it;
      continue;
    }
    wire.disconnect(process);
    r.waiting.clear(t.discarded);
    it = peer_routes.erase(it);
    ++forgotten_routes;
  }
}

// -- Events: one thread at a time delivers them, to keep their order --

void message_router::state::deliver_events() {
  std::unique_lock lock(mutex);
  if (is_delivering)
    return;
  is_delivering = true;
  while (!pending_events.empty() && !is_stopped) {
    auto next = std::move(pending_events.front());
    pending_events.pop_front();
    lock.unlock();
    deliver_event(next);
    next = hello{}; // destroys a message while unlocked
    lock.lock();
  }
  is_delivering = false;
  delivery_ended.notify_all();
}

void message_router::state::deliver_event(bus_event& n) {
  if (auto* fallen = std::get_if<std::pair<process_id, link_down>>(&n)) {
    if (down)
      down(fallen->first, fallen->second.incarnation, fallen->second.why);
  } else if (auto* risen = std::get_if<hello>(&n)) {
    if (up)
      up(*risen);
  } else if (auto* outgoing = std::get_if<delivery>(&n)) {
    std::shared_ptr<const receiver> to;
    {
      std::lock_guard lock(mutex);
      auto it = actors.find(outgoing->about.target_actor);
      if (it == actors.end()) {
        ++counters.unknown_actor;
        return;
      }
      ++counters.delivered;
      to = it->second;
    }
    (*to)(outgoing->about, std::move(outgoing->content));
  }
}

// -- Sending --

sent message_router::state::transmit(peer_route& r, actor_id target, actor_id source,
                                     std::uint64_t correlation, const message& m,
                                     incarnation_id target_incarnation, std::size_t& size_bytes) {
  const auto kind = kind_of(m);
  auto e = r.to.stamp(target, source, correlation, kind);
  if (target_incarnation)
    e.target_incarnation = target_incarnation;
  const auto f = encode(e, m);
  size_bytes = f.size_bytes();
  if (needs_credit(kind) && !r.to.has_credit(size_bytes))
    return sent::back_pressure;
  const auto outcome = wire.send(r.to.peer(), f);
  if (outcome == sent::ok) {
    r.to.note_sent(kind, size_bytes);
    ++counters.sent;
  }
  return outcome;
}

void message_router::state::apply(locked_scope& t, peer_route& r, link_effects& fx) {
  if (is_stopped)
    return;
  const auto peer = r.to.peer();
  if (fx.went_down) {
    counters.dropped += r.waiting.count();
    r.waiting.clear(t.discarded);
    --counters.peers_up;
    pending_events.emplace_back(std::pair{peer, *fx.went_down});
  }
  if (fx.connect) {
    if (auto made = wire.connect(peer, *fx.connect); !made) {
      spdlog::warn("no connection back to process {}: {}", peer.value, made.error().message);
      link_effects nothing;
      r.to.disconnect(nothing);
    }
  }
  for (auto& outgoing : fx.send) {
    std::size_t size_bytes = 0;
    const auto outcome = transmit(r, {}, {}, outgoing.correlation, outgoing.content,
                                  outgoing.target_incarnation, size_bytes);
    // Hellos and heartbeats are repeated anyway; the total of a credit must arrive.
    if (outcome == sent::back_pressure && std::holds_alternative<credit>(outgoing.content))
      r.waiting.push({.target = {},
                      .source = {},
                      .correlation = 0,
                      .content = std::move(outgoing.content),
                      .size_bytes = size_bytes});
  }
  if (fx.went_up) {
    ++counters.peers_up;
    pending_events.emplace_back(*fx.went_up);
  }
  if (fx.refused)
    spdlog::warn("process {} refuses this process: {}", peer.value, fx.refused->message);
  if (fx.has_room)
    flush(t, r);
}

void message_router::state::enqueue(locked_scope& t, peer_route& r, waiting_message m) {
  if (r.waiting.bytes + m.size_bytes <= options.waiting_bytes_max &&
      r.waiting.count() < options.waiting_count_max) {
    r.waiting.push(std::move(m));
    return;
  }
  t.discarded.push_back(std::move(m.content));
  ++counters.dropped;
  lose(t, r, "too many messages wait for the peer");
}

void message_router::state::flush(locked_scope& t, peer_route& r) {
  for (auto* queue : {&r.waiting.control, &r.waiting.data}) {
    while (!queue->empty() && r.to.is_up()) {
      const auto& m = queue->front();
      if (needs_credit(kind_of(m.content)) && !r.to.has_credit(m.size_bytes))
        break;
      std::size_t size_bytes = 0;
      const auto outcome =
          transmit(r, m.target, m.source, m.correlation, m.content, {}, size_bytes);
      if (outcome == sent::too_large) {
        lose(t, r, "a message exceeds the size limit");
        return;
      }
      if (outcome != sent::ok)
        break;
      r.waiting.pop(*queue, t.discarded);
    }
  }
}

void message_router::state::lose(locked_scope& t, peer_route& r, const std::string& why) {
  link_effects fx;
  r.to.lose(why, now, fx);
  ++counters.lost;
  apply(t, r, fx);
}

// -- Receiving --

void message_router::state::receive(frames&& f) {
  auto e = decode_envelope(f.head);
  if (!e && e.error().code == errc::version_mismatch) {
    {
      std::lock_guard lock(mutex);
      ++counters.version;
    }
    // A hello is answered all the same; otherwise its sender would never learn the reason.
    e = decode_foreign_envelope(f.head);
    if (e && e->kind != kind_number<hello>())
      return;
  }
  if (!e) {
    std::lock_guard lock(mutex);
    ++counters.bad;
    return;
  }
  if (e->kind == kind_number<hello>()) {
    receive_hello(*e, f);
    return;
  }
  std::uint64_t intake = 0;
  {
    locked_scope t(*this);
    ++counters.received;
    auto* r = find(e->source);
    if (is_stopped || !r) {
      ++counters.unknown_peer;
      return;
    }
    link_effects fx;
    auto v = r->to.judge(*e, f.size_bytes(), now, fx);
    intake = r->to.intake();
    apply(t, *r, fx);
    if (v == verdict::control)
      v = take_control(t, *r, *e, f);
    count(v);
    if (v != verdict::deliver)
      return;
  }
  deliver(*e, f, intake);
}

void message_router::state::count(verdict v) {
  switch (v) {
  case verdict::stale:
    ++counters.stale;
    break;
  case verdict::early:
    ++counters.early;
    break;
  case verdict::bad:
    ++counters.bad;
    break;
  case verdict::lost:
    ++counters.lost;
    break;
  case verdict::deliver:
  case verdict::greet:
  case verdict::control:
    break;
  }
}

verdict message_router::state::take_control(locked_scope& t, peer_route& r, const envelope& e,
                                            const frames& f) {
  auto m = decode_body(e, f.body, f.bulk);
  if (!m) {
    lose(t, r, m.error().message);
    return verdict::bad;
  }
  link_effects fx;
  if (auto* ack = std::get_if<hello_ack>(&*m))
    r.to.on_hello_ack(e, *ack, now, fx);
  else if (auto* beat = std::get_if<heartbeat>(&*m))
    r.to.on_heartbeat(*beat);
  else if (auto* c = std::get_if<credit>(&*m))
    r.to.on_credit(*c, now, fx);
  apply(t, r, fx);
  return verdict::control;
}

void message_router::state::receive_hello(const envelope& e, const frames& f) {
  auto m = decode_body(e, f.body, f.bulk);
  auto* h = m ? std::get_if<hello>(&*m) : nullptr;
  std::optional<error> refused;
  if (h && options.admit && e.source != self.process)
    if (auto admitted = options.admit(*h); !admitted)
      refused = admitted.error();
  locked_scope t(*this);
  ++counters.received;
  if (!h || h->process != e.source || e.source == self.process || !e.source) {
    ++counters.bad;
    return;
  }
  if (is_stopped || (!find(e.source) && peer_routes.size() >= options.peers_max)) {
    ++counters.unknown_peer;
    return;
  }
  auto& r = find_or_add(e.source);
  link_effects fx;
  auto v = r.to.judge(e, f.size_bytes(), now, fx);
  if (v == verdict::greet) {
    if (refused) {
      ++counters.refused;
      spdlog::warn("process {} ({}) is refused: {}", e.source.value, h->name, refused->message);
    }
    v = r.to.on_hello(e, *h, std::move(refused), now, fx);
  }
  count(v);
  apply(t, r, fx);
}

void message_router::state::deliver(const envelope& e, const frames& f, std::uint64_t intake) {
  auto m = decode_body(e, f.body, f.bulk);
  locked_scope t(*this);
  auto* r = find(e.source);
  // Another thread may have lost the link meanwhile: nothing is delivered after peer_down.
  if (!r || !r->to.is_up() || r->to.intake() != intake) {
    ++counters.early;
    if (m)
      t.discarded.push_back(std::move(*m));
    return;
  }
  if (!m) {
    ++counters.bad;
    lose(t, *r, m.error().message);
    return;
  }
  lease held;
  if (needs_credit(e.kind)) {
    held = std::make_shared<loan<state>>(weak_from_this(), e.source, intake, f.size_bytes());
    held = attach(*m, std::move(held));
  }
  pending_events.emplace_back(delivery{e, std::move(*m), std::move(held)});
}

void message_router::state::bus_connected(process_id peer) {
  locked_scope t(*this);
  auto* r = find(peer);
  if (!r)
    return;
  link_effects fx;
  r->to.bus_connected(now, fx);
  apply(t, *r, fx);
}

void message_router::state::bus_disconnected(process_id peer, const std::string& why) {
  locked_scope t(*this);
  auto* r = find(peer);
  if (!r)
    return;
  link_effects fx;
  r->to.bus_disconnected(why, fx);
  apply(t, *r, fx);
}

void message_router::state::release(process_id peer, std::uint64_t intake, std::size_t size_bytes) {
  locked_scope t(*this);
  auto* r = find(peer);
  if (!r)
    return;
  link_effects fx;
  r->to.released(intake, size_bytes, fx);
  apply(t, *r, fx);
}

} // namespace baton::cluster
