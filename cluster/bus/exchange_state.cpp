#include "cluster/bus/exchange_state.hpp"

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

exchange::state::turn::~turn() {
  const bool has_news = !state_.notices.empty() && !state_.is_telling;
  lock_.unlock();
  if (has_news)
    state_.tell();
}

exchange::state::state(bus& b, hello h, exchange_options o)
    : wire(b), self(std::move(h)), options(std::move(o)), now(std::chrono::steady_clock::now()) {
  ENSURE(self.process && self.incarnation, "a process without id or incarnation");
}

exchange::state::road* exchange::state::find(process_id peer) {
  auto it = roads.find(peer);
  return it == roads.end() ? nullptr : &it->second;
}

exchange::state::road& exchange::state::find_or_add(process_id peer) {
  if (auto* known = find(peer))
    return *known;
  const auto intake = roads_forgotten << 32U;
  return roads.emplace(peer, road{link(self, peer, options.link, now, intake), {}}).first->second;
}

void exchange::state::forget_clients(turn& t) {
  for (auto it = roads.begin(); it != roads.end();) {
    auto& [node, r] = *it;
    if (!r.to.is_gone(now)) {
      ++it;
      continue;
    }
    wire.disconnect(node);
    r.waiting.clear(t.discarded);
    it = roads.erase(it);
    ++roads_forgotten;
  }
}

// -- Events: one thread at a time delivers them, to keep their order --

void exchange::state::tell() {
  std::unique_lock lock(mutex);
  if (is_telling)
    return;
  is_telling = true;
  while (!notices.empty() && !is_stopped) {
    auto next = std::move(notices.front());
    notices.pop_front();
    lock.unlock();
    tell_one(next);
    next = hello{}; // destroys a message while unlocked
    lock.lock();
  }
  is_telling = false;
  told.notify_all();
}

void exchange::state::tell_one(notice& n) {
  if (auto* fallen = std::get_if<std::pair<process_id, link_down>>(&n)) {
    if (down)
      down(fallen->first, fallen->second.epoch, fallen->second.why);
  } else if (auto* risen = std::get_if<hello>(&n)) {
    if (up)
      up(*risen);
  } else if (auto* letter = std::get_if<delivery>(&n)) {
    std::shared_ptr<const receiver> to;
    {
      std::lock_guard lock(mutex);
      auto it = actors.find(letter->about.target_actor);
      if (it == actors.end()) {
        ++counters.unknown_actor;
        return;
      }
      ++counters.delivered;
      to = it->second;
    }
    (*to)(letter->about, std::move(letter->content));
  }
}

// -- Sending --

sent exchange::state::transmit(road& r, actor_id target, actor_id source, std::uint64_t correlation,
                               const message& m, epoch_id target_incarnation,
                               std::size_t& size_bytes) {
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

void exchange::state::apply(turn& t, road& r, link_effects& fx) {
  if (is_stopped)
    return;
  const auto peer = r.to.peer();
  if (fx.went_down) {
    counters.dropped += r.waiting.count();
    r.waiting.clear(t.discarded);
    --counters.peers_up;
    notices.emplace_back(std::pair{peer, *fx.went_down});
  }
  if (fx.connect) {
    if (auto made = wire.connect(peer, *fx.connect); !made) {
      spdlog::warn("no connection back to process {}: {}", peer.value, made.error().message);
      link_effects nothing;
      r.to.disconnect(nothing);
    }
  }
  for (auto& letter : fx.send) {
    std::size_t size_bytes = 0;
    const auto outcome = transmit(r, {}, {}, letter.correlation, letter.content,
                                  letter.target_incarnation, size_bytes);
    // Hellos and heartbeats are repeated anyway; the total of a credit must arrive.
    if (outcome == sent::back_pressure && std::holds_alternative<credit>(letter.content))
      r.waiting.push({{}, {}, 0, std::move(letter.content), size_bytes});
  }
  if (fx.went_up) {
    ++counters.peers_up;
    notices.emplace_back(*fx.went_up);
  }
  if (fx.refused)
    spdlog::warn("process {} refuses this process: {}", peer.value, fx.refused->message);
  if (fx.has_room)
    flush(t, r);
}

void exchange::state::wait_in_line(turn& t, road& r, waiting_message m) {
  if (r.waiting.bytes + m.size_bytes <= options.waiting_bytes_max &&
      r.waiting.count() < options.waiting_count_max) {
    r.waiting.push(std::move(m));
    return;
  }
  t.discarded.push_back(std::move(m.content));
  ++counters.dropped;
  lose(t, r, "too many messages wait for the peer");
}

void exchange::state::flush(turn& t, road& r) {
  for (auto* line : {&r.waiting.control, &r.waiting.data}) {
    while (!line->empty() && r.to.is_up()) {
      const auto& m = line->front();
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
      r.waiting.pop(*line, t.discarded);
    }
  }
}

void exchange::state::lose(turn& t, road& r, const std::string& why) {
  link_effects fx;
  r.to.lose(why, now, fx);
  ++counters.lost;
  apply(t, r, fx);
}

// -- Receiving --

void exchange::state::receive(frames&& f) {
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
    turn t(*this);
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

void exchange::state::count(verdict v) {
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

verdict exchange::state::take_control(turn& t, road& r, const envelope& e, const frames& f) {
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

void exchange::state::receive_hello(const envelope& e, const frames& f) {
  auto m = decode_body(e, f.body, f.bulk);
  auto* h = m ? std::get_if<hello>(&*m) : nullptr;
  std::optional<error> refused;
  if (h && options.admit && e.source != self.process)
    if (auto admitted = options.admit(*h); !admitted)
      refused = admitted.error();
  turn t(*this);
  ++counters.received;
  if (!h || h->process != e.source || e.source == self.process || !e.source) {
    ++counters.bad;
    return;
  }
  if (is_stopped || (!find(e.source) && roads.size() >= options.peers_max)) {
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

void exchange::state::deliver(const envelope& e, const frames& f, std::uint64_t intake) {
  auto m = decode_body(e, f.body, f.bulk);
  turn t(*this);
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
  notices.emplace_back(delivery{e, std::move(*m), std::move(held)});
}

void exchange::state::bus_connected(process_id peer) {
  turn t(*this);
  auto* r = find(peer);
  if (!r)
    return;
  link_effects fx;
  r->to.bus_connected(now, fx);
  apply(t, *r, fx);
}

void exchange::state::bus_disconnected(process_id peer, const std::string& why) {
  turn t(*this);
  auto* r = find(peer);
  if (!r)
    return;
  link_effects fx;
  r->to.bus_disconnected(why, fx);
  apply(t, *r, fx);
}

void exchange::state::release(process_id peer, std::uint64_t intake, std::size_t size_bytes) {
  turn t(*this);
  auto* r = find(peer);
  if (!r)
    return;
  link_effects fx;
  r->to.released(intake, size_bytes, fx);
  apply(t, *r, fx);
}

} // namespace baton::cluster
