// One link driven event by event: process 1 in incarnation 10 talks to process 2 in incarnation 20.
// Its effects are logged.
#pragma once

#include "cluster/bus/link.hpp"

#include <doctest/doctest.h>

#include <functional>

namespace baton::testing {

using namespace cluster;
using namespace std::chrono_literals;

inline constexpr process_id us{1};
inline constexpr process_id them{2};
inline constexpr incarnation_id our_incarnation{10};
inline constexpr incarnation_id their_incarnation{20};

inline hello hello_of(process_id process, incarnation_id incarnation, std::string endpoint) {
  hello h;
  h.process = process;
  h.incarnation = incarnation;
  h.endpoint = std::move(endpoint);
  return h;
}

// Whole seconds, the unit of the tables.
inline link_options slow_beats() {
  link_options o;
  o.heartbeat_interval = 1000ms;
  o.heartbeat_timeout = 5000ms;
  return o;
}

struct bench {
  link_options options;
  instant now{};
  cluster::link l{hello_of(us, our_incarnation, "sim://us"), them, options, now};
  std::uint64_t their_next = 1;    // number of their next message
  std::uint64_t their_session = 0; // number of their last opening hello
  std::uint64_t our_session = 0;   // seen in our hello
  std::string log;                 // effects of the last event, in order

  explicit bench(link_options o = slow_beats()) : options(o) {
    l = cluster::link(hello_of(us, our_incarnation, "sim://us"), them, options, now);
  }

  void note(link_effects& fx) {
    log.clear();
    auto add = [&](std::string_view word) { log += (log.empty() ? "" : " ") + std::string(word); };
    if (fx.went_down)
      add("-down");
    if (fx.connect)
      add("connect:" + *fx.connect);
    for (auto& outgoing : fx.send) {
      const auto kind = kind_of(outgoing.content);
      const auto* ack = std::get_if<hello_ack>(&outgoing.content);
      add(ack && ack->refused ? "refusal" : baton::name_of(kind));
      if (std::holds_alternative<hello>(outgoing.content))
        our_session = outgoing.correlation;
      l.note_sent(kind, 100);
    }
    if (fx.went_up)
      add("+up");
    if (fx.refused)
      add("refused");
  }

  envelope from_them(message_kind kind, std::uint64_t sequence) const {
    envelope e;
    e.kind = kind;
    e.source = them;
    e.source_incarnation = their_incarnation;
    e.target = us;
    e.target_incarnation = our_incarnation;
    e.sequence = sequence;
    return e;
  }

  verdict receive_hello(incarnation_id incarnation, std::uint64_t session, std::uint64_t sequence,
                        const std::string& endpoint = "sim://them",
                        std::optional<error> refused = {},
                        std::uint16_t version = protocol_version) {
    auto e = from_them(kind_number<hello>(), sequence);
    e.source_incarnation = incarnation;
    e.target_incarnation = {};
    e.correlation = session;
    e.version = version;
    link_effects fx;
    auto v = l.judge(e, 100, now, fx);
    if (v == verdict::greet)
      v = l.on_hello(e, hello_of(them, incarnation, endpoint), refused, now, fx);
    note(fx);
    return v;
  }
  // A hello that opens a session of their current incarnation.
  verdict receive_new_hello() {
    their_session = their_next;
    return receive_hello(their_incarnation, their_session, their_next++);
  }

  verdict receive_ack(std::uint64_t correlation, std::optional<error> refused = {}) {
    auto e = from_them(kind_number<hello_ack>(), their_next++);
    e.correlation = correlation;
    link_effects fx;
    auto v = l.judge(e, 100, now, fx);
    if (v == verdict::control)
      l.on_hello_ack(
          e, hello_ack{them, their_incarnation, options.window_bytes, std::move(refused)}, now, fx);
    note(fx);
    return v;
  }

  verdict receive(envelope e, std::size_t size_bytes = 100) {
    link_effects fx;
    auto v = l.judge(e, size_bytes, now, fx);
    note(fx);
    return v;
  }
  verdict receive_data(std::uint64_t sequence, std::size_t size_bytes = 100) {
    return receive(from_them(kind_number<micro_batch>(), sequence), size_bytes);
  }

  void with(const std::function<void(link_effects&)>& act) {
    link_effects fx;
    act(fx);
    note(fx);
  }
  void connect(const std::string& endpoint = "sim://them") {
    with([&](auto& fx) { l.connect(endpoint, {}, fx); });
  }
  void bus_connected() {
    with([&](auto& fx) { l.bus_connected(now, fx); });
  }
  void tick(std::chrono::milliseconds after) {
    now += after;
    with([&](auto& fx) { l.tick(now, 0, fx); });
  }
  void send(std::size_t size_bytes) { l.note_sent(kind_number<micro_batch>(), size_bytes); }
};

enum class start { down, connecting, greeted_early, greeting, greeted, acked, up };

// `received`: their hello arrived while we were connecting. `greeted`: they greeted, our hello is
// not yet acked.
inline bench at(start s) {
  bench b;
  if (s == start::down)
    return b;
  b.connect();
  if (s == start::connecting)
    return b;
  if (s == start::greeted_early) {
    b.receive_new_hello();
    return b;
  }
  b.bus_connected();
  if (s == start::greeting)
    return b;
  b.receive_new_hello();
  if (s == start::greeted)
    return b;
  b.receive_ack(b.our_session);
  return b;
}

} // namespace baton::testing
