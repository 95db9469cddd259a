// The rules of a link: checks, retransmission, credit and tolerance.
#include "tests/unit/bus/link_bench.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::testing;

TEST_CASE(
    "an envelope is checked by target, incarnations, greeting and number before its body is read") {
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
      {"for another node", start::up, [](envelope& e) { e.target = process_id{9}; }, verdict::bad},
      {"for our former incarnation", start::up,
       [](envelope& e) { e.target_incarnation = incarnation_id{9}; }, verdict::stale},
      {"for any incarnation", start::up, [](envelope& e) { e.target_incarnation = {}; },
       verdict::stale},
      {"from their former incarnation", start::up,
       [](envelope& e) { e.source_incarnation = incarnation_id{19}; }, verdict::stale},
      {"from an incarnation that has not greeted", start::up,
       [](envelope& e) { e.source_incarnation = incarnation_id{21}; }, verdict::early},
      {"from before the session", start::up, [](envelope& e) { e.sequence = 0; }, verdict::stale},
      {"repeated", start::up, [](envelope& e) { e.sequence -= 1; }, verdict::lost},
      {"after a gap", start::up, [](envelope& e) { e.sequence += 1; }, verdict::lost},
      {"of another version", start::up, [](envelope& e) { e.version = 2; }, verdict::bad},
      {"from a peer that thinks us up", start::greeted, [](envelope&) {}, verdict::lost},
      {"before they greeted", start::greeting, [](envelope&) {}, verdict::early},
      {"to a link that is down", start::down, [](envelope&) {}, verdict::early},
  };
  for (const auto& c : cases) {
    CAPTURE(c.what);
    auto b = at(c.from);
    auto e = b.from_them(kind_number<sampled>(), b.their_next);
    c.change(e);
    CHECK(b.receive(e) == c.expected);
  }
}

TEST_CASE("a hello with false fields is bad and changes nothing") {
  auto b = at(start::greeting);
  auto e = b.from_them(kind_number<hello>(), 1);
  e.target_incarnation = {};
  e.correlation = 1;
  link_effects fx;
  CHECK(b.l.on_hello(e, hello_of(process_id{3}, their_incarnation, "x"), {}, b.now, fx) ==
        verdict::bad);
  CHECK(b.l.on_hello(e, hello_of(them, incarnation_id{99}, "x"), {}, b.now, fx) == verdict::bad);
  CHECK(b.l.on_hello(e, hello_of(them, their_incarnation, ""), {}, b.now, fx) == verdict::bad);
  e.correlation = 0;
  CHECK(b.l.on_hello(e, hello_of(them, their_incarnation, "x"), {}, b.now, fx) == verdict::bad);
  e.correlation = 2; // a session that would begin after this message
  CHECK(b.l.on_hello(e, hello_of(them, their_incarnation, "x"), {}, b.now, fx) == verdict::bad);
  CHECK(!b.l.incarnation());
  CHECK(fx.send.empty());
}

TEST_CASE("a hello of another protocol version is refused with version_mismatch") {
  auto b = at(start::greeting);
  auto e = b.from_them(kind_number<hello>(), 1);
  e.target_incarnation = {};
  e.correlation = 1;
  e.version = 2;
  link_effects fx;
  CHECK(b.l.on_hello(e, hello_of(them, their_incarnation, "x"), {}, b.now, fx) == verdict::greet);
  REQUIRE(fx.send.size() == 1);
  const auto* ack = std::get_if<hello_ack>(&fx.send[0].content);
  REQUIRE(ack);
  REQUIRE(ack->refused);
  CHECK(ack->refused->code == errc::version_mismatch);
  CHECK(fx.send[0].target_incarnation == their_incarnation);
  CHECK(b.l.state() == link_state::greeting);
}

TEST_CASE("a refused stranger cannot bring down the live incarnation") {
  auto b = at(start::up);
  CHECK(b.receive_hello(incarnation_id{99}, 1, 1, "sim://stranger", fail(errc::forbidden, "no")) ==
        verdict::greet);
  CHECK(b.l.is_up());
  CHECK(b.log.empty());
  CHECK(b.receive_data(b.their_next) == verdict::deliver);
}

TEST_CASE(
    "numbers continue over sessions, so a late message of the last one is never taken for new") {
  auto b = at(start::up);
  b.receive_data(b.their_next++);
  const auto old = b.their_next;
  b.their_next += 3; // lost with the connection
  b.receive_new_hello();
  b.receive_ack(b.our_session);
  CHECK(b.l.is_up());
  CHECK(b.receive_data(old) == verdict::stale);
  CHECK(b.l.is_up());
  CHECK(b.receive_data(b.their_next++) == verdict::deliver);
}

TEST_CASE("a hello without an answer is repeated, less and less often") {
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

namespace {

void lose_link(bench& b) {
  b.with([&](auto& fx) { b.l.lose("refused", b.now, fx); });
}

// The peer takes our hello, greets again and acknowledges.
void come_up(bench& b) {
  b.receive_new_hello();
  b.receive_ack(b.our_session);
  REQUIRE(b.l.is_up());
}

// Loses the link `count` times as soon as it is up -> how long it took to come up again each time
std::chrono::milliseconds lose_quickly(bench& b, int count) {
  const auto began = b.now;
  for (int i = 0; i < count; ++i) {
    lose_link(b);
    while (b.log.find("hello") == std::string::npos)
      b.tick(100ms);
    come_up(b);
  }
  return std::chrono::duration_cast<std::chrono::milliseconds>(b.now - began);
}

} // namespace

TEST_CASE("a link that is lost whenever it is up greets with growing pauses") {
  auto b = at(start::up);
  CHECK(lose_quickly(b, 8) == 0ms);
  CHECK(lose_quickly(b, 1) == 500ms);
  CHECK(lose_quickly(b, 1) == 1000ms);
  CHECK(lose_quickly(b, 1) == 2000ms);
  CHECK(lose_quickly(b, 1) == 4000ms);
  CHECK(lose_quickly(b, 10) == 50'000ms);
}

TEST_CASE("a loss after a longer session, or of a new incarnation, is greeted at once again") {
  auto b = at(start::up);
  lose_quickly(b, 10);
  SUBCASE("a session as long as the heartbeat timeout") {
    for (int i = 0; i < 10; ++i) {
      b.tick(500ms);
      b.receive(b.from_them(kind_number<heartbeat>(), b.their_next++));
    }
  }
  SUBCASE("a new incarnation") {
    b.receive_hello(incarnation_id{21}, 1, 1);
    CHECK(b.log == "-down hello hello_ack");
    auto ack = b.from_them(kind_number<hello_ack>(), 2);
    ack.source_incarnation = incarnation_id{21};
    b.with([&](auto& fx) {
      ack.correlation = b.our_session;
      CHECK(b.l.judge(ack, 100, b.now, fx) == verdict::control);
      b.l.on_hello_ack(ack, hello_ack{them, incarnation_id{21}, 1000, {}}, b.now, fx);
    });
  }
  REQUIRE(b.l.is_up());
  lose_link(b);
  CHECK(b.log == "-down hello");
}

TEST_CASE("while a greeting is postponed the peer's hello is answered and no session opens") {
  auto b = at(start::up);
  lose_quickly(b, 8);
  const auto session = b.our_session;
  lose_link(b);
  CHECK(b.log == "-down");
  b.receive_new_hello();
  CHECK(b.log == "hello_ack");
  b.receive_ack(session); // late, of the session that is lost
  CHECK_FALSE(b.l.is_up());
  lose_link(b); // a second loss changes nothing
  CHECK(b.log.empty());
  b.bus_connected(); // another connection
  CHECK(b.log.find("hello") == 0);
  come_up(b);
}

TEST_CASE("data is sent only within the window, a larger message only alone") {
  auto o = slow_beats();
  o.window_bytes = 1000;
  bench b(o);
  b.connect();
  b.bus_connected();
  b.receive_new_hello();
  b.receive_ack(b.our_session);
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
    b.receive_new_hello();
    b.receive_ack(b.our_session);
    REQUIRE(b.l.is_up());
    CHECK(b.l.outstanding_bytes() == 0);
  }
  SUBCASE("credit that decreases means a broken peer") {
    b.with([&](auto& fx) { b.l.on_credit(credit{999}, b.now, fx); });
    CHECK_FALSE(b.l.is_up());
  }
}

TEST_CASE("credit is granted by quarters of the window, and the rest with a heartbeat") {
  auto o = slow_beats();
  o.window_bytes = 1000;
  bench b(o);
  b.connect();
  b.bus_connected();
  b.receive_new_hello();
  b.receive_ack(b.our_session);
  const auto intake = b.l.intake();
  auto release = [&](std::size_t bytes) {
    b.with([&](auto& fx) { b.l.released(intake, bytes, fx); });
    return b.log;
  };
  CHECK(b.receive_data(b.their_next++, 900) == verdict::deliver);
  CHECK(release(249) == "");
  CHECK(release(1) == "credit");
  CHECK(release(100) == "");
  b.tick(1000ms);
  CHECK(b.log == "heartbeat credit");
  SUBCASE("credit returned by messages of an older session is not counted") {
    b.receive_new_hello();
    b.receive_ack(b.our_session);
    CHECK(release(500) == "");
    b.tick(1000ms);
    CHECK(b.log == "heartbeat");
  }
  SUBCASE("a peer that sends more than its credit loses the link") {
    CHECK(b.receive_data(b.their_next++, 450) == verdict::deliver);
    CHECK(b.receive_data(b.their_next++, 1) == verdict::lost);
  }
}

TEST_CASE("a process that was stopped itself does not treat its peers as silent") {
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

TEST_CASE("if the given address is dead, the one that the peer announced is tried") {
  bench b;
  b.connect("sim://former-life");
  b.bus_connected();
  b.receive_hello(their_incarnation, 1, b.their_next++, "sim://them");
  CHECK(b.log == "hello_ack");
  b.with([&](auto& fx) { b.l.bus_disconnected("fell", fx); });
  CHECK(b.log == "connect:sim://them");
}

TEST_CASE("an address of an older incarnation than the one that greeted us is ignored") {
  auto b = at(start::up);
  b.with([&](auto& fx) { b.l.connect("sim://dead", incarnation_id{19}, fx); });
  CHECK(b.l.is_up());
  b.with([&](auto& fx) { b.l.connect("sim://alias", their_incarnation, fx); });
  CHECK(b.l.is_up());
  b.with([&](auto& fx) { b.l.connect("sim://next", incarnation_id{21}, fx); });
  CHECK(b.log == "-down connect:sim://next");
}
