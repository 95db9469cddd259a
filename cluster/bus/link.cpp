#include "cluster/bus/link.hpp"

#include <algorithm>

namespace baton::cluster {
namespace {

constexpr auto hello_kind = kind_number<hello>();
constexpr auto hello_ack_kind = kind_number<hello_ack>();
constexpr auto heartbeat_kind = kind_number<heartbeat>();
constexpr auto credit_kind = kind_number<credit>();

// Credit is returned in quarters of the window: rarely, but before a steady sender runs dry.
constexpr std::uint64_t grants_per_window = 4;

} // namespace

std::string_view name_of(link_state s) noexcept {
  switch (s) {
  case link_state::down:
    return "down";
  case link_state::connecting:
    return "connecting";
  case link_state::greeting:
    return "greeting";
  case link_state::up:
    return "up";
  }
  return "unknown";
}

link::link(hello self, process_id peer, link_options options, instant now, std::uint64_t intake)
    : self_(std::move(self)), peer_(peer), options_(options), last_received_(now), ticked_(now),
      beat_due_(now), greet_due_(now), greet_wait_(options.greet_interval) {
  in_.intake = intake;
  out_.next = intake + 1;
}

bool link::is_gone(instant now) const noexcept {
  return peer_hello_ && peer_hello_->role == role::client && !is_up() &&
         now - last_received_ >= options_.heartbeat_timeout;
}

void link::connect(const std::string& endpoint, incarnation_id incarnation, link_effects& fx) {
  if (incarnation && (incarnation < incarnation_ || (incarnation == incarnation_ && is_up())))
    return;
  if (state_ != link_state::down && endpoint == endpoint_)
    return;
  switch_to(endpoint, fx);
}

void link::switch_to(const std::string& endpoint, link_effects& fx) {
  leave_up("connecting to another endpoint", fx);
  endpoint_ = endpoint;
  state_ = link_state::connecting;
  fx.connect = endpoint;
}

void link::disconnect(link_effects& fx) {
  leave_up("disconnected by us", fx);
  state_ = link_state::down;
  endpoint_.clear();
  in_.is_open = false;
}

void link::bus_connected(instant now, link_effects& fx) {
  if (state_ == link_state::down)
    return;
  leave_up("the connection was replaced", fx);
  state_ = link_state::greeting;
  greet(now, fx);
  // Answers the peer's hello that arrived before we could reply.
  if (in_.is_open)
    acknowledge(fx);
  else if (refusal_)
    send_refusal(fx);
}

void link::bus_disconnected(const std::string& why, link_effects& fx) {
  if (state_ == link_state::down)
    return;
  leave_up(why, fx);
  reason_ = why;
  state_ = link_state::connecting;
  // The given address may belong to an earlier incarnation.
  if (peer_hello_ && peer_hello_->endpoint != endpoint_)
    switch_to(peer_hello_->endpoint, fx);
}

void link::lose(const std::string& why, instant now, link_effects& fx) {
  const auto pause = pause_after_loss(now);
  leave_up(why, fx);
  in_.is_open = false;
  if (state_ != link_state::greeting || is_greet_postponed_)
    return;
  if (pause == std::chrono::milliseconds{}) {
    greet(now, fx);
    return;
  }
  is_greet_postponed_ = true;
  greet_due_ = now + pause;
}

// Counts the loss that happens `now`.
std::chrono::milliseconds link::pause_after_loss(instant now) {
  if (is_greet_postponed_)
    return {};
  const bool is_quick = state_ != link_state::up || now - up_since_ < options_.heartbeat_timeout;
  quick_losses_ = is_quick ? quick_losses_ + 1 : 0;
  auto pause = options_.greet_interval;
  if (quick_losses_ <= options_.quick_losses_max)
    return {};
  for (auto n = options_.quick_losses_max + 1;
       n < quick_losses_ && pause < options_.greet_interval_max; ++n)
    pause *= 2;
  return std::min(pause, options_.greet_interval_max);
}

// From `up` to `greeting`; the caller changes the state further. No effect in other states.
void link::leave_up(const std::string& why, link_effects& fx) {
  if (state_ != link_state::up)
    return;
  fx.went_down = link_down{incarnation_, why};
  reason_ = why;
  state_ = link_state::greeting;
  out_.is_acked = false;
}

// Opens a session of ours; what was outstanding in the last one no longer counts.
void link::greet(instant now, link_effects& fx) {
  const auto next = out_.next;
  out_ = {};
  out_.next = next;
  out_.session = next;
  is_greet_postponed_ = false;
  greet_wait_ = options_.greet_interval;
  greet_due_ = now + greet_wait_;
  fx.send.push_back({self_, out_.session, {}});
}

void link::greet_again(instant now, link_effects& fx) {
  greet_wait_ = std::min(greet_wait_ * 2, options_.greet_interval_max);
  greet_due_ = now + greet_wait_;
  fx.send.push_back({self_, out_.session, {}});
}

void link::acknowledge(link_effects& fx) const {
  fx.send.push_back(
      {hello_ack{self_.process, self_.incarnation, options_.window_bytes, {}}, in_.session, {}});
}

void link::send_refusal(link_effects& fx) const {
  fx.send.push_back({hello_ack{self_.process, self_.incarnation, 0, refusal_->why},
                     refusal_->session, refusal_->incarnation});
}

void link::rise_if_greeted(instant now, link_effects& fx) {
  if (state_ != link_state::greeting || !out_.is_acked || !in_.is_open)
    return;
  state_ = link_state::up;
  reason_.clear();
  last_received_ = up_since_ = now;
  beat_due_ = now + options_.heartbeat_interval;
  fx.went_up = peer_hello_;
}

verdict link::judge(const envelope& e, std::size_t size_bytes, instant now, link_effects& fx) {
  if (e.target != self_.process)
    return verdict::bad;
  if (e.source_incarnation < incarnation_)
    return verdict::stale;
  if (e.kind == hello_kind)
    return e.target_incarnation && e.target_incarnation != self_.incarnation ? verdict::stale
                                                                             : verdict::greet;
  if (e.version != protocol_version)
    return verdict::bad;
  if (e.target_incarnation != self_.incarnation)
    return verdict::stale;
  if (e.source_incarnation != incarnation_ || !in_.is_open)
    return verdict::early;
  if (e.sequence < in_.first)
    return verdict::stale;
  if (e.sequence != in_.next) {
    lose(fmt::format("message {} came where {} was due", e.sequence, in_.next), now, fx);
    return verdict::lost;
  }
  ++in_.next;
  last_received_ = now;
  if (e.kind == hello_ack_kind || e.kind == heartbeat_kind || e.kind == credit_kind)
    return verdict::control;
  if (state_ == link_state::greeting) {
    // The peer considers us up, but we take no messages yet: only a new session corrects that.
    lose("a message came before the greeting was over", now, fx);
    return verdict::lost;
  }
  if (state_ != link_state::up)
    return verdict::early;
  if (needs_credit(e.kind) && !takes_data(size_bytes)) {
    lose("the peer sent more than its credit", now, fx);
    return verdict::lost;
  }
  return verdict::deliver;
}

// The same rule as has_credit, from the receiver's side: grants that the peer may not have seen yet
// are not counted against it.
bool link::takes_data(std::size_t size_bytes) noexcept {
  const auto outstanding = in_.data_bytes - in_.granted_bytes;
  if (outstanding != 0 && outstanding + size_bytes > options_.window_bytes)
    return false;
  in_.data_bytes += size_bytes;
  return true;
}

verdict link::on_hello(const envelope& e, const hello& h, std::optional<error> refused, instant now,
                       link_effects& fx) {
  const auto session = e.correlation;
  if (h.process != peer_ || h.incarnation != e.source_incarnation || !h.incarnation ||
      session == 0 || session > e.sequence || h.endpoint.empty())
    return verdict::bad;
  if (e.version != protocol_version)
    refused = fail(errc::version_mismatch, "protocol version {} here, {} there", protocol_version,
                   e.version);
  const bool is_new_incarnation = h.incarnation != incarnation_;
  if (!is_new_incarnation && session < in_.session)
    return verdict::stale;
  if (!is_new_incarnation && in_.is_open && session == in_.session) {
    if (e.sequence < in_.first)
      return verdict::stale;
    if (e.sequence != in_.next) {
      lose(fmt::format("hello {} came where {} was due", e.sequence, in_.next), now, fx);
      return verdict::lost;
    }
    ++in_.next; // our answer was lost or is in flight
    last_received_ = now;
    if (state_ == link_state::greeting || state_ == link_state::up)
      acknowledge(fx);
    else if (h.endpoint != endpoint_)
      switch_to(h.endpoint, fx);
    return verdict::greet;
  }
  if (refused) {
    refuse(h, session, std::move(*refused), now, fx);
    return verdict::greet;
  }
  adopt(e, h, now, fx);
  return verdict::greet;
}

// The peer learns the reason if it is reachable over our connection. A known incarnation loses its
// link; an unknown one cannot affect the one that is up.
void link::refuse(const hello& h, std::uint64_t session, error why, instant now, link_effects& fx) {
  if (h.incarnation != incarnation_ && is_up())
    return;
  refusal_ = refusal{h.incarnation, session, std::move(why)};
  in_.is_open = false;
  if (is_up())
    lose("refused: " + refusal_->why.message, now, fx);
  reason_ = refusal_->why.message;
  if (state_ == link_state::greeting)
    send_refusal(fx);
  else if (state_ == link_state::down)
    switch_to(h.endpoint, fx);
}

// A hello that opens a session: of a new incarnation, or of the same one greeting again.
void link::adopt(const envelope& e, const hello& h, instant now, link_effects& fx) {
  const bool was_known = static_cast<bool>(incarnation_);
  const bool is_new_incarnation = h.incarnation != incarnation_;
  const bool was_up = state_ == link_state::up;
  leave_up(is_new_incarnation ? "a new incarnation of the peer greets" : "the peer greets again",
           fx);
  if (is_new_incarnation)
    quick_losses_ = 0;
  incarnation_ = h.incarnation;
  peer_hello_ = h;
  refusal_.reset();
  const auto intake = in_.intake + 1;
  in_ = {};
  in_.is_open = true;
  in_.intake = intake;
  in_.session = e.correlation;
  in_.first = e.sequence;
  in_.next = e.sequence + 1;
  last_received_ = now;
  const bool elsewhere = h.endpoint != endpoint_;
  // A working connection is kept, since the configured address may differ from the peer's own name
  // for it. A connection to another incarnation is not kept.
  if (state_ == link_state::down ||
      (elsewhere && (state_ == link_state::connecting || (was_known && is_new_incarnation)))) {
    switch_to(h.endpoint, fx);
    return;
  }
  if (state_ != link_state::greeting)
    return;
  if (was_up || (was_known && is_new_incarnation))
    greet(now, fx);
  acknowledge(fx);
  rise_if_greeted(now, fx);
}

void link::on_hello_ack(const envelope& e, const hello_ack& ack, instant now, link_effects& fx) {
  if (state_ != link_state::greeting || is_greet_postponed_ || e.correlation != out_.session)
    return;
  if (ack.refused) {
    reason_ = ack.refused->message;
    fx.refused = ack.refused;
    return;
  }
  out_.is_acked = true;
  out_.window_bytes = ack.credit_bytes;
  rise_if_greeted(now, fx);
}

void link::on_credit(const credit& c, instant now, link_effects& fx) {
  if (state_ != link_state::up)
    return;
  if (c.bytes_total < out_.credited_bytes || c.bytes_total > out_.data_bytes) {
    lose(fmt::format("credit of {} bytes for {} sent", c.bytes_total, out_.data_bytes), now, fx);
    return;
  }
  out_.credited_bytes = c.bytes_total;
  fx.has_room = true;
}

void link::released(std::uint64_t intake, std::size_t size_bytes, link_effects& fx) {
  if (!in_.is_open || intake != in_.intake)
    return;
  in_.released_bytes += size_bytes;
  ENSURE(in_.released_bytes <= in_.data_bytes, "released {} of {} bytes", in_.released_bytes,
         in_.data_bytes);
  const auto due = in_.released_bytes - in_.granted_bytes;
  if (state_ == link_state::up && due >= options_.window_bytes / grants_per_window)
    grant(fx);
}

void link::grant(link_effects& fx) {
  in_.granted_bytes = in_.released_bytes;
  fx.send.push_back({credit{in_.granted_bytes}, 0, {}});
}

void link::tick(instant now, std::uint64_t steps, link_effects& fx) {
  // If this process was stopped, the peer's heartbeats are still unread: that is no silence.
  if (now - ticked_ > options_.heartbeat_timeout / 2)
    last_received_ = now;
  ticked_ = now;
  if (state_ == link_state::greeting && now >= greet_due_) {
    if (is_greet_postponed_)
      greet(now, fx);
    else
      greet_again(now, fx);
  }
  if (state_ != link_state::up)
    return;
  if (now - last_received_ >= options_.heartbeat_timeout) {
    lose(fmt::format("silent for {} ms", options_.heartbeat_timeout.count()), now, fx);
    return;
  }
  if (now < beat_due_)
    return;
  beat_due_ = now + options_.heartbeat_interval;
  fx.send.push_back({heartbeat{++beats_, steps}, 0, {}});
  // Grants less than a quarter too: one message may need nearly the whole window.
  if (in_.released_bytes != in_.granted_bytes)
    grant(fx);
}

envelope link::stamp(actor_id target, actor_id source, std::uint64_t correlation,
                     message_kind kind) const {
  envelope e;
  e.kind = kind;
  e.source = self_.process;
  e.source_incarnation = self_.incarnation;
  e.target = peer_;
  if (kind != hello_kind)
    e.target_incarnation = incarnation_;
  e.source_actor = source;
  e.target_actor = target;
  e.correlation = correlation;
  e.sequence = out_.next;
  return e;
}

bool link::has_credit(std::size_t size_bytes) const noexcept {
  const auto outstanding = outstanding_bytes();
  return outstanding == 0 ||
         (outstanding <= out_.window_bytes && size_bytes <= out_.window_bytes - outstanding);
}

void link::note_sent(message_kind kind, std::size_t size_bytes) noexcept {
  ++out_.next;
  if (needs_credit(kind))
    out_.data_bytes += size_bytes;
}

} // namespace baton::cluster
