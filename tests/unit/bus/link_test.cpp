// The state machine of one peer, event by event: node 1 in life 10 talks to node 2 in life 20.
#include "cluster/link.hpp"

#include <doctest/doctest.h>

#include <functional>

using namespace baton;
using namespace baton::cluster;
using namespace std::chrono_literals;

namespace {

constexpr node_id us{1};
constexpr node_id them{2};
constexpr epoch_id our_life{10};
constexpr epoch_id their_life{20};

hello hello_of(node_id node, epoch_id life, std::string endpoint) {
  hello h;
  h.node = node;
  h.epoch = life;
  h.endpoint = std::move(endpoint);
  return h;
}

struct bench {
  link_options options;
  instant now{};
  cluster::link l{hello_of(us, our_life, "sim://us"), them, options, now};
  std::uint64_t their_next = 1;    // number of their next message
  std::uint64_t their_session = 0; // number of their last opening hello
  std::uint64_t our_session = 0;   // seen in our hello
  std::string log;                 // effects of the last event, in order

  explicit bench(link_options o = {}) : options(o) {
    l = cluster::link(hello_of(us, our_life, "sim://us"), them, options, now);
  }

  void note(link_effects& fx) {
    log.clear();
    auto say = [&](std::string_view word) { log += (log.empty() ? "" : " ") + std::string(word); };
    if (fx.went_down)
      say("-down");
    if (fx.connect)
      say("connect:" + *fx.connect);
    for (auto& letter : fx.send) {
      const auto kind = kind_of(letter.content);
      const auto* ack = std::get_if<hello_ack>(&letter.content);
      say(ack && ack->refused ? "refusal" : baton::name_of(kind));
      if (std::holds_alternative<hello>(letter.content))
        our_session = letter.correlation;
      l.note_sent(kind, 100);
    }
    if (fx.went_up)
      say("+up");
    if (fx.refused)
      say("refused");
  }

  envelope from_them(message_kind kind, std::uint64_t sequence) const {
    envelope e;
    e.kind = kind;
    e.source = them;
    e.source_epoch = their_life;
    e.target = us;
    e.target_epoch = our_life;
    e.sequence = sequence;
    return e;
  }

  verdict hear_hello(epoch_id life, std::uint64_t session, std::uint64_t sequence,
                     const std::string& endpoint = "sim://them", std::optional<error> refused = {},
                     std::uint16_t version = protocol_version) {
    auto e = from_them(kind_number<hello>(), sequence);
    e.source_epoch = life;
    e.target_epoch = {};
    e.correlation = session;
    e.version = version;
    link_effects fx;
    auto v = l.judge(e, 100, now, fx);
    if (v == verdict::greet)
      v = l.on_hello(e, hello_of(them, life, endpoint), refused, now, fx);
    note(fx);
    return v;
  }
  // A hello that opens a session of their present life.
  verdict hear_new_hello() {
    their_session = their_next;
    return hear_hello(their_life, their_session, their_next++);
  }

  verdict hear_ack(std::uint64_t correlation, std::optional<error> refused = {}) {
    auto e = from_them(kind_number<hello_ack>(), their_next++);
    e.correlation = correlation;
    link_effects fx;
    auto v = l.judge(e, 100, now, fx);
    if (v == verdict::control)
      l.on_hello_ack(e, hello_ack{them, their_life, options.window_bytes, std::move(refused)}, now,
                     fx);
    note(fx);
    return v;
  }

  verdict hear(envelope e, std::size_t size_bytes = 100) {
    link_effects fx;
    auto v = l.judge(e, size_bytes, now, fx);
    note(fx);
    return v;
  }
  verdict hear_data(std::uint64_t sequence, std::size_t size_bytes = 100) {
    return hear(from_them(kind_number<micro_batch>(), sequence), size_bytes);
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

enum class start { down, connecting, heard, greeting, greeted, acked, up };

// heard: they greeted while we were connecting. greeted: they greeted, our hello is not yet acked.
bench at(start s) {
  bench b;
  if (s == start::down)
    return b;
  b.connect();
  if (s == start::connecting)
    return b;
  if (s == start::heard) {
    b.hear_new_hello();
    return b;
  }
  b.bus_connected();
  if (s == start::greeting)
    return b;
  b.hear_new_hello();
  if (s == start::greeted)
    return b;
  b.hear_ack(b.our_session);
  return b;
}

struct row {
  start from;
  const char* event;
  void (*act)(bench&);
  link_state to;
  const char* effects;
};

// Events, named as in the table below.
void connect_same(bench& b) {
  b.connect();
}
void connect_other(bench& b) {
  b.connect("sim://elsewhere");
}
void connected(bench& b) {
  b.bus_connected();
}
void disconnected(bench& b) {
  b.with([&](auto& fx) { b.l.bus_disconnected("fell", fx); });
}
void disconnect(bench& b) {
  b.with([&](auto& fx) { b.l.disconnect(fx); });
}
void hello_new(bench& b) {
  b.hear_new_hello();
}
void hello_again(bench& b) {
  b.hear_hello(their_life, b.their_session, b.their_next++);
}
void hello_repeat(bench& b) {
  b.hear_hello(their_life, b.their_session, b.their_session);
}
void hello_next_life(bench& b) {
  b.hear_hello(epoch_id{21}, 1, 1, "sim://them-21");
}
void hello_old_life(bench& b) {
  b.hear_hello(epoch_id{19}, 1, 1, "sim://them-19");
}
void hello_refused(bench& b) {
  b.their_session = b.their_next;
  b.hear_hello(their_life, b.their_session, b.their_next++, "sim://them",
               fail(errc::forbidden, "no"));
}
void ack(bench& b) {
  b.hear_ack(b.our_session);
}
void ack_of_other(bench& b) {
  b.hear_ack(b.our_session + 7);
}
void ack_refused(bench& b) {
  b.hear_ack(b.our_session, fail(errc::forbidden, "no"));
}
void data(bench& b) {
  b.hear_data(b.their_next++);
}
void gap(bench& b) {
  b.hear_data(b.their_next + 1);
}
void repeat(bench& b) {
  b.hear_data(b.their_next - 1);
}
void silence(bench& b) {
  for (int i = 0; i < 5; ++i)
    b.tick(1000ms);
}
void second(bench& b) {
  b.tick(1000ms);
}
void lose(bench& b) {
  b.with([&](auto& fx) { b.l.lose("lost", b.now, fx); });
}
void credit_too_much(bench& b) {
  b.with([&](auto& fx) { b.l.on_credit(credit{1'000'000}, b.now, fx); });
}

#define EVENT(f) #f, f
using enum link_state;
const row table[] = {
    {start::down, EVENT(connect_same), connecting, "connect:sim://them"},
    {start::down, EVENT(connected), down, ""},
    {start::down, EVENT(disconnected), down, ""},
    {start::down, EVENT(disconnect), down, ""},
    {start::down, EVENT(hello_new), connecting, "connect:sim://them"},
    {start::down, EVENT(hello_refused), connecting, "connect:sim://them"},
    {start::down, EVENT(ack), down, ""},
    {start::down, EVENT(data), down, ""},
    {start::down, EVENT(silence), down, ""},
    {start::down, EVENT(lose), down, ""},
    {start::down, EVENT(credit_too_much), down, ""},

    {start::connecting, EVENT(connect_same), connecting, ""},
    {start::connecting, EVENT(connect_other), connecting, "connect:sim://elsewhere"},
    {start::connecting, EVENT(connected), greeting, "hello"},
    {start::connecting, EVENT(disconnected), connecting, ""},
    {start::connecting, EVENT(disconnect), down, ""},
    {start::connecting, EVENT(hello_new), connecting, ""},
    {start::connecting, EVENT(hello_refused), connecting, ""},
    {start::connecting, EVENT(hello_next_life), connecting, "connect:sim://them-21"},
    {start::connecting, EVENT(data), connecting, ""},
    {start::connecting, EVENT(silence), connecting, ""},
    {start::connecting, EVENT(lose), connecting, ""},

    {start::heard, EVENT(connected), greeting, "hello hello_ack"},
    {start::heard, EVENT(hello_next_life), connecting, "connect:sim://them-21"},
    {start::heard, EVENT(hello_old_life), connecting, ""},
    {start::heard, EVENT(hello_again), connecting, ""},
    {start::heard, EVENT(data), connecting, ""},
    {start::heard, EVENT(gap), connecting, ""},

    {start::greeting, EVENT(connect_same), greeting, ""},
    {start::greeting, EVENT(connect_other), connecting, "connect:sim://elsewhere"},
    {start::greeting, EVENT(connected), greeting, "hello"},
    {start::greeting, EVENT(disconnected), connecting, ""},
    {start::greeting, EVENT(disconnect), down, ""},
    {start::greeting, EVENT(hello_new), greeting, "hello_ack"},
    {start::greeting, EVENT(hello_refused), greeting, "refusal"},
    {start::greeting, EVENT(ack), greeting, ""},
    {start::greeting, EVENT(data), greeting, ""},
    {start::greeting, EVENT(gap), greeting, ""},
    {start::greeting, EVENT(second), greeting, "hello"},
    {start::greeting, EVENT(credit_too_much), greeting, ""},

    {start::greeted, EVENT(ack), up, "+up"},
    {start::greeted, EVENT(ack_of_other), greeting, ""},
    {start::greeted, EVENT(ack_refused), greeting, "refused"},
    {start::greeted, EVENT(hello_again), greeting, "hello_ack"},
    {start::greeted, EVENT(hello_repeat), greeting, "hello"},
    {start::greeted, EVENT(hello_new), greeting, "hello_ack"},
    {start::greeted, EVENT(hello_next_life), connecting, "connect:sim://them-21"},
    {start::greeted, EVENT(hello_old_life), greeting, ""},
    {start::greeted, EVENT(hello_refused), greeting, "refusal"},
    {start::greeted, EVENT(connected), greeting, "hello hello_ack"},
    {start::greeted, EVENT(disconnected), connecting, ""},
    {start::greeted, EVENT(data), greeting, ""},
    {start::greeted, EVENT(gap), greeting, "hello"},
    {start::greeted, EVENT(second), greeting, "hello"},

    {start::up, EVENT(connect_same), up, ""},
    {start::up, EVENT(connect_other), connecting, "-down connect:sim://elsewhere"},
    {start::up, EVENT(connected), greeting, "-down hello hello_ack"},
    {start::up, EVENT(disconnected), connecting, "-down"},
    {start::up, EVENT(disconnect), down, "-down"},
    {start::up, EVENT(hello_new), greeting, "-down hello hello_ack"},
    {start::up, EVENT(hello_again), up, "hello_ack"},
    {start::up, EVENT(hello_repeat), greeting, "-down hello"},
    {start::up, EVENT(hello_next_life), connecting, "-down connect:sim://them-21"},
    {start::up, EVENT(hello_old_life), up, ""},
    {start::up, EVENT(hello_refused), greeting, "-down hello refusal"},
    {start::up, EVENT(ack), up, ""},
    {start::up, EVENT(ack_refused), up, ""},
    {start::up, EVENT(data), up, ""},
    {start::up, EVENT(gap), greeting, "-down hello"},
    {start::up, EVENT(repeat), greeting, "-down hello"},
    {start::up, EVENT(lose), greeting, "-down hello"},
    {start::up, EVENT(credit_too_much), greeting, "-down hello"},
    {start::up, EVENT(second), up, "heartbeat"},
    {start::up, EVENT(silence), greeting, "-down hello"},
};
#undef EVENT

} // namespace

TEST_CASE("a link goes from each state with each event where the table says") {
  for (const auto& r : table) {
    auto b = at(r.from);
    CAPTURE(static_cast<int>(r.from));
    CAPTURE(r.event);
    r.act(b);
    CHECK(cluster::name_of(b.l.state()) == cluster::name_of(r.to));
    CHECK(b.log == r.effects);
  }
}

TEST_CASE("an envelope is judged by target, epochs, greeting and number before its body is read") {
  struct judged {
    const char* what;
    start from;
    void (*change)(envelope&);
    verdict expected;
  };
  const judged cases[] = {
      {"in order", start::up, [](envelope&) {}, verdict::deliver},
      {"heartbeat", start::up, [](envelope& e) { e.kind = kind_number<heartbeat>(); },
       verdict::control},
      {"for another node", start::up, [](envelope& e) { e.target = node_id{9}; }, verdict::bad},
      {"for our former life", start::up, [](envelope& e) { e.target_epoch = epoch_id{9}; },
       verdict::stale},
      {"for any life", start::up, [](envelope& e) { e.target_epoch = {}; }, verdict::stale},
      {"from their former life", start::up, [](envelope& e) { e.source_epoch = epoch_id{19}; },
       verdict::stale},
      {"from a life that has not greeted", start::up,
       [](envelope& e) { e.source_epoch = epoch_id{21}; }, verdict::early},
      {"from before the session", start::up, [](envelope& e) { e.sequence = 0; }, verdict::stale},
      {"repeated", start::up, [](envelope& e) { e.sequence -= 1; }, verdict::lost},
      {"after a gap", start::up, [](envelope& e) { e.sequence += 1; }, verdict::lost},
      {"of another version", start::up, [](envelope& e) { e.version = 2; }, verdict::bad},
      {"before we are up", start::greeted, [](envelope&) {}, verdict::early},
      {"before they greeted", start::greeting, [](envelope&) {}, verdict::early},
      {"to a link that is down", start::down, [](envelope&) {}, verdict::early},
  };
  for (const auto& c : cases) {
    CAPTURE(c.what);
    auto b = at(c.from);
    auto e = b.from_them(kind_number<sampled>(), b.their_next);
    c.change(e);
    CHECK(b.hear(e) == c.expected);
  }
}

TEST_CASE("a hello that lies about itself is bad and changes nothing") {
  auto b = at(start::greeting);
  auto e = b.from_them(kind_number<hello>(), 1);
  e.target_epoch = {};
  e.correlation = 1;
  link_effects fx;
  CHECK(b.l.on_hello(e, hello_of(node_id{3}, their_life, "x"), {}, b.now, fx) == verdict::bad);
  CHECK(b.l.on_hello(e, hello_of(them, epoch_id{99}, "x"), {}, b.now, fx) == verdict::bad);
  CHECK(b.l.on_hello(e, hello_of(them, their_life, ""), {}, b.now, fx) == verdict::bad);
  e.correlation = 0;
  CHECK(b.l.on_hello(e, hello_of(them, their_life, "x"), {}, b.now, fx) == verdict::bad);
  e.correlation = 2; // a session that would begin after this message
  CHECK(b.l.on_hello(e, hello_of(them, their_life, "x"), {}, b.now, fx) == verdict::bad);
  CHECK(!b.l.life());
  CHECK(fx.send.empty());
}

TEST_CASE("a hello of another protocol version is refused with version_mismatch") {
  auto b = at(start::greeting);
  auto e = b.from_them(kind_number<hello>(), 1);
  e.target_epoch = {};
  e.correlation = 1;
  e.version = 2;
  link_effects fx;
  CHECK(b.l.on_hello(e, hello_of(them, their_life, "x"), {}, b.now, fx) == verdict::greet);
  REQUIRE(fx.send.size() == 1);
  const auto* ack = std::get_if<hello_ack>(&fx.send[0].content);
  REQUIRE(ack);
  REQUIRE(ack->refused);
  CHECK(ack->refused->code == errc::version_mismatch);
  CHECK(fx.send[0].target_epoch == their_life);
  CHECK(b.l.state() == link_state::greeting);
}

TEST_CASE("a refused stranger cannot bring down the life that is up") {
  auto b = at(start::up);
  CHECK(b.hear_hello(epoch_id{99}, 1, 1, "sim://stranger", fail(errc::forbidden, "no")) ==
        verdict::greet);
  CHECK(b.l.is_up());
  CHECK(b.log.empty());
  CHECK(b.hear_data(b.their_next) == verdict::deliver);
}

TEST_CASE("numbers go on over sessions, so a late message of the last one is never taken for new") {
  auto b = at(start::up);
  b.hear_data(b.their_next++);
  const auto old = b.their_next;
  b.their_next += 3; // lost with the connection
  b.hear_new_hello();
  b.hear_ack(b.our_session);
  CHECK(b.l.is_up());
  CHECK(b.hear_data(old) == verdict::stale);
  CHECK(b.l.is_up());
  CHECK(b.hear_data(b.their_next++) == verdict::deliver);
}

TEST_CASE("a hello without an answer is said again, less and less often") {
  auto b = at(start::greeting);
  const auto session = b.our_session;
  int hellos = 0;
  for (int ms = 0; ms < 60'000; ms += 100) {
    b.tick(100ms);
    hellos += b.log == "hello" ? 1 : 0;
    CHECK(b.our_session == session);
  }
  // 0.5, 1.5, 3.5, 7.5 s, then every 5 s.
  CHECK(hellos == 14);
}

TEST_CASE("data is sent only within the window, a larger message only alone") {
  link_options o;
  o.window_bytes = 1000;
  bench b(o);
  b.connect();
  b.bus_connected();
  b.hear_new_hello();
  b.hear_ack(b.our_session);
  REQUIRE(b.l.is_up());
  CHECK(b.l.has_credit(5000));
  b.send(600);
  CHECK(b.l.has_credit(400));
  CHECK_FALSE(b.l.has_credit(401));
  b.send(400);
  CHECK_FALSE(b.l.has_credit(1));
  b.with([&](auto& fx) { b.l.on_credit(credit{600}, b.now, fx); });
  CHECK(b.l.outstanding_bytes() == 400);
  CHECK(b.l.has_credit(600));
  b.with([&](auto& fx) { b.l.on_credit(credit{1000}, b.now, fx); });
  CHECK(b.l.has_credit(5000));
  b.send(5000);
  CHECK_FALSE(b.l.has_credit(1));
  SUBCASE("a new session begins with the whole window") {
    b.hear_new_hello();
    b.hear_ack(b.our_session);
    REQUIRE(b.l.is_up());
    CHECK(b.l.outstanding_bytes() == 0);
  }
  SUBCASE("credit that goes back is a broken peer") {
    b.with([&](auto& fx) { b.l.on_credit(credit{999}, b.now, fx); });
    CHECK_FALSE(b.l.is_up());
  }
}

TEST_CASE("credit is granted by quarters of the window, and what is left with a heartbeat") {
  link_options o;
  o.window_bytes = 1000;
  bench b(o);
  b.connect();
  b.bus_connected();
  b.hear_new_hello();
  b.hear_ack(b.our_session);
  const auto intake = b.l.intake();
  auto release = [&](std::size_t bytes) {
    b.with([&](auto& fx) { b.l.released(intake, bytes, fx); });
    return b.log;
  };
  CHECK(b.hear_data(b.their_next++, 900) == verdict::deliver);
  CHECK(release(249) == "");
  CHECK(release(1) == "credit");
  CHECK(release(100) == "");
  b.tick(1000ms);
  CHECK(b.log == "heartbeat credit");
  SUBCASE("what an older session's messages give back is not counted") {
    b.hear_new_hello();
    b.hear_ack(b.our_session);
    CHECK(release(500) == "");
    b.tick(1000ms);
    CHECK(b.log == "heartbeat");
  }
  SUBCASE("a peer that sends more than its credit loses the link") {
    CHECK(b.hear_data(b.their_next++, 450) == verdict::deliver);
    CHECK(b.hear_data(b.their_next++, 1) == verdict::lost);
  }
}

TEST_CASE("a process that was stopped itself does not take its peers for silent") {
  auto b = at(start::up);
  b.tick(1000ms);
  b.tick(60'000ms);
  CHECK(b.l.is_up());
  b.tick(2000ms);
  b.tick(2000ms);
  CHECK(b.l.is_up());
  b.tick(1000ms);
  CHECK_FALSE(b.l.is_up());
  CHECK(b.l.reason() == "silent for 5000 ms");
}

TEST_CASE("when the given address turns out to be dead, the one that the peer named is tried") {
  bench b;
  b.connect("sim://former-life");
  b.bus_connected();
  b.hear_hello(their_life, 1, b.their_next++, "sim://them");
  CHECK(b.log == "hello_ack");
  b.with([&](auto& fx) { b.l.bus_disconnected("fell", fx); });
  CHECK(b.log == "connect:sim://them");
}

TEST_CASE("an address of an older life than the one that greeted us is ignored") {
  auto b = at(start::up);
  b.with([&](auto& fx) { b.l.connect("sim://dead", epoch_id{19}, fx); });
  CHECK(b.l.is_up());
  b.with([&](auto& fx) { b.l.connect("sim://alias", their_life, fx); });
  CHECK(b.l.is_up());
  b.with([&](auto& fx) { b.l.connect("sim://next", epoch_id{21}, fx); });
  CHECK(b.log == "-down connect:sim://next");
}
