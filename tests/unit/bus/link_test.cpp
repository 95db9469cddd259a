// The state machine of one peer: each state with each event.
#include "tests/unit/bus/link_bench.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::testing;

namespace {

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
  b.receive_new_hello();
}
void hello_again(bench& b) {
  b.receive_hello(their_incarnation, b.their_session, b.their_next++);
}
void hello_repeat(bench& b) {
  b.receive_hello(their_incarnation, b.their_session, b.their_session);
}
void hello_next_incarnation(bench& b) {
  b.receive_hello(incarnation_id{21}, 1, 1, "sim://them-21");
}
void hello_old_incarnation(bench& b) {
  b.receive_hello(incarnation_id{19}, 1, 1, "sim://them-19");
}
void hello_refused(bench& b) {
  b.their_session = b.their_next;
  b.receive_hello(their_incarnation, b.their_session, b.their_next++, "sim://them",
                  fail(errc::forbidden, "no"));
}
void ack(bench& b) {
  b.receive_ack(b.our_session);
}
void ack_of_other(bench& b) {
  b.receive_ack(b.our_session + 7);
}
void ack_refused(bench& b) {
  b.receive_ack(b.our_session, fail(errc::forbidden, "no"));
}
void data(bench& b) {
  b.receive_data(b.their_next++);
}
void gap(bench& b) {
  b.receive_data(b.their_next + 1);
}
void repeat(bench& b) {
  b.receive_data(b.their_next - 1);
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
    {start::connecting, EVENT(hello_next_incarnation), connecting, "connect:sim://them-21"},
    {start::connecting, EVENT(data), connecting, ""},
    {start::connecting, EVENT(silence), connecting, ""},
    {start::connecting, EVENT(lose), connecting, ""},

    {start::greeted_early, EVENT(connected), greeting, "hello hello_ack"},
    {start::greeted_early, EVENT(hello_next_incarnation), connecting, "connect:sim://them-21"},
    {start::greeted_early, EVENT(hello_old_incarnation), connecting, ""},
    {start::greeted_early, EVENT(hello_again), connecting, ""},
    {start::greeted_early, EVENT(data), connecting, ""},
    {start::greeted_early, EVENT(gap), connecting, ""},

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
    {start::greeted, EVENT(hello_next_incarnation), connecting, "connect:sim://them-21"},
    {start::greeted, EVENT(hello_old_incarnation), greeting, ""},
    {start::greeted, EVENT(hello_refused), greeting, "refusal"},
    {start::greeted, EVENT(connected), greeting, "hello hello_ack"},
    {start::greeted, EVENT(disconnected), connecting, ""},
    {start::greeted, EVENT(data), greeting, "hello"},
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
    {start::up, EVENT(hello_next_incarnation), connecting, "-down connect:sim://them-21"},
    {start::up, EVENT(hello_old_incarnation), up, ""},
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

TEST_CASE("a link moves from each state with each event as in the table") {
  for (const auto& r : table) {
    auto b = at(r.from);
    CAPTURE(static_cast<int>(r.from));
    CAPTURE(r.event);
    r.act(b);
    CHECK(cluster::name_of(b.l.state()) == cluster::name_of(r.to));
    CHECK(b.log == r.effects);
  }
}
