// The state of one peer: greeting, message numbers, incarnations, credit, heartbeats. A pure state
// machine: no threads, no sockets, no clock. message_router.cpp calls it under its lock and
// executes the effects in their order.
#pragma once

#include "schema/codec/codec.hpp"
#include "schema/messages.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace baton::cluster {

using instant = std::chrono::steady_clock::time_point;

struct link_options {
  // Unreleased data of a peer: a few micro-batches of the largest kind.
  std::uint64_t window_bytes = 64ull << 20;
  std::chrono::milliseconds heartbeat_interval{300};
  // How long a process may hang undetected. Seconds, not less: short timeouts on a loaded machine
  // disconnect healthy peers.
  std::chrono::milliseconds heartbeat_timeout{1500};
  // An unanswered hello is repeated after this time, then after twice as long, up to the maximum.
  std::chrono::milliseconds greet_interval{500};
  std::chrono::milliseconds greet_interval_max{5000};
  // A session that ends before heartbeat_timeout is a quick loss. After more than this many in a
  // row a lost link waits before it greets: greet_interval, then twice as long each time, up to the
  // maximum. A peer whose messages are always refused would otherwise greet at full speed.
  std::uint32_t quick_losses_max = 8;
};

enum class link_state : std::uint8_t { down, connecting, greeting, up };
std::string_view name_of(link_state s) noexcept;

struct link_down {
  incarnation_id incarnation;
  std::string why;
};

// The effects of one event, to be executed in this order.
struct link_effects {
  struct outgoing_message {
    message content;
    std::uint64_t correlation = 0;
    incarnation_id target_incarnation; // empty: the one that greeted us
  };
  std::optional<link_down> went_down;
  std::optional<std::string> connect; // ask the bus for a connection to this endpoint
  std::vector<outgoing_message> send; // in any state
  std::optional<hello> went_up;
  std::optional<error> refused; // the peer's reason for refusing us
  bool has_room = false;        // new credit: queued messages can be sent
};

// How to handle a received message, judged by its envelope alone.
enum class verdict : std::uint8_t {
  deliver, // to an actor
  greet,   // a hello: call on_hello
  control, // hello_ack, heartbeat, credit: call on_...
  stale,   // of an incarnation or a connection that has ended
  early,   // from a peer that is not up
  bad,     // not for us, or not our protocol
  lost,    // a gap or a repeat: the link has gone down
};

// The number of a kind is its index in `message`, from 1 (schema/codec/codec.hpp).
template <class T, std::size_t I = 0>
constexpr message_kind kind_number() {
  if constexpr (std::is_same_v<T, std::variant_alternative_t<I, message>>)
    return message_kind{static_cast<std::uint16_t>(I + 1)};
  else
    return kind_number<T, I + 1>();
}

//            connect, hello                 bus_connected             acked and greeted
//   down ----------------------> connecting -------------> greeting -------------------> up
//    ^                            ^      ^                  |  ^ |                        |
//    |                            |      +--bus_disconnected+  +-+ no answer: repeat;     |
//    |                            |                                quick losses: wait     |
//    |                            +--------------- bus_disconnected, other endpoint ------+
//    |                                                         ^                          |
//    |                                                         +-- gap, silence, ---------+
//    +---- disconnect (from any)                                   new life, new hello
//
// A hello opens a session, identified by the hello's message number (the correlation of hello and
// hello_ack). A sender numbers its messages to a peer from 1 over its whole incarnation, so late
// messages of an older session are recognized. After leaving `up` a side sends nothing more in that
// session. A side that receives a newer hello while up goes down and greets again.
class link {
public:
  // `self.endpoint` is where the peer connects back to. Intakes and message numbers start above
  // `intake`, so they differ from those of an earlier, forgotten link to this peer.
  link(hello self, process_id peer, link_options options, instant now, std::uint64_t intake = 0);

  link_state state() const noexcept { return state_; }
  bool is_up() const noexcept { return state_ == link_state::up; }
  process_id peer() const noexcept { return peer_; }
  // The incarnation that last greeted us; empty before.
  incarnation_id incarnation() const noexcept { return incarnation_; }
  const std::optional<hello>& peer_hello() const noexcept { return peer_hello_; }
  const std::string& endpoint() const noexcept { return endpoint_; }
  // A client that has been silent for a while. It has no next incarnation and gets no messages.
  bool is_gone(instant now) const noexcept;
  // Why it is not up: the last error of the bus, or the peer's refusal.
  const std::string& reason() const noexcept { return reason_; }
  std::uint64_t peer_steps() const noexcept { return peer_steps_; }

  // -- Events from the owner and the bus --

  // Sets an address. No effect if this is the current endpoint, or if the peer has greeted us from
  // a later incarnation.
  void connect(const std::string& endpoint, incarnation_id incarnation, link_effects& fx);
  // Where the peer connects back to after its next hello.
  void listen_at(const std::string& endpoint) { self_.endpoint = endpoint; }
  // Back to `down`: the owner disconnects the bus as well.
  void disconnect(link_effects& fx);
  void bus_connected(instant now, link_effects& fx);
  void bus_disconnected(const std::string& why, link_effects& fx);
  // Leaves `up` and greets again after a loss: at once, or after a pause if it was one of many
  // quick ones.
  void lose(const std::string& why, instant now, link_effects& fx);
  // Handles heartbeats, silence and repeated hellos. `steps`: progress of this process.
  void tick(instant now, std::uint64_t steps, link_effects& fx);

  // -- Messages from the peer --

  // Requires: `e.source` is the peer.
  verdict judge(const envelope& e, std::size_t size_bytes, instant now, link_effects& fx);
  // `refused`: why the peer is not admitted, if so. Returns greet, stale, bad or lost.
  verdict on_hello(const envelope& e, const hello& h, std::optional<error> refused, instant now,
                   link_effects& fx);
  void on_hello_ack(const envelope& e, const hello_ack& ack, instant now, link_effects& fx);
  void on_heartbeat(const heartbeat& h) { peer_steps_ = h.steps; }
  void on_credit(const credit& c, instant now, link_effects& fx);

  // -- Received data: its bytes count against the window until released --

  // Identifies the session of received data messages; changes whenever the peer greets again.
  std::uint64_t intake() const noexcept { return in_.intake; }
  void released(std::uint64_t intake, std::size_t size_bytes, link_effects& fx);

  // -- Sending --

  // The envelope of the next message; call `note_sent` once it is sent.
  envelope stamp(actor_id target, actor_id source, std::uint64_t correlation,
                 message_kind kind) const;
  bool has_credit(std::size_t size_bytes) const noexcept;
  void note_sent(message_kind kind, std::size_t size_bytes) noexcept;
  std::uint64_t outstanding_bytes() const noexcept { return out_.data_bytes - out_.credited_bytes; }
  std::uint64_t window_bytes() const noexcept { return out_.window_bytes; }

private:
  struct outgoing {
    std::uint64_t next = 1;    // number of the next message
    std::uint64_t session = 0; // number of the hello that opened it
    bool is_acked = false;
    std::uint64_t window_bytes = 0;
    std::uint64_t data_bytes = 0; // sent in this session
    std::uint64_t credited_bytes = 0;
  };
  struct incoming {
    bool is_open = false;
    std::uint64_t intake = 0; // counts sessions, local to our side
    std::uint64_t session = 0;
    std::uint64_t first = 0; // number of the first message seen
    std::uint64_t next = 0;
    std::uint64_t data_bytes = 0;
    std::uint64_t released_bytes = 0;
    std::uint64_t granted_bytes = 0; // of released_bytes, sent to the peer
  };

  bool takes_data(std::size_t size_bytes) noexcept;
  void adopt(const envelope& e, const hello& h, instant now, link_effects& fx);
  void greet(instant now, link_effects& fx);
  std::chrono::milliseconds pause_after_loss(instant now);
  void greet_again(instant now, link_effects& fx);
  void acknowledge(link_effects& fx) const;
  void refuse(const hello& h, std::uint64_t session, error why, instant now, link_effects& fx);
  void send_refusal(link_effects& fx) const;
  void grant(link_effects& fx);
  void leave_up(const std::string& why, link_effects& fx);
  void rise_if_greeted(instant now, link_effects& fx);
  void switch_to(const std::string& endpoint, link_effects& fx);

  hello self_;
  process_id peer_;
  link_options options_;
  link_state state_ = link_state::down;
  std::string endpoint_;
  std::string reason_;
  incarnation_id incarnation_;
  std::optional<hello> peer_hello_;
  struct refusal {
    incarnation_id incarnation;
    std::uint64_t session = 0;
    error why;
  };
  std::optional<refusal> refusal_; // of the peer's last hello
  outgoing out_;
  incoming in_;
  std::uint64_t beats_ = 0;
  std::uint64_t peer_steps_ = 0;
  instant last_received_;
  instant ticked_;
  instant beat_due_;
  instant up_since_;
  std::uint32_t quick_losses_ = 0;  // in a row
  bool is_greet_postponed_ = false; // no session is open yet: the next one opens at greet_due_
  instant greet_due_;
  std::chrono::milliseconds greet_wait_;
};

} // namespace baton::cluster
