// Tickets without a gateway: how long they run, wait and are kept, and which clients may resume
// them.
#include "tests/unit/schedule/fixture.hpp"

using namespace baton;
using namespace baton::schedule;
using namespace std::chrono_literals;

namespace {

constexpr process_id first_gateway{7};
constexpr process_id second_gateway{8};
constexpr std::uint64_t key = 0xFEED;

scheduler_config patient() {
  auto c = small_config();
  c.detach_grace = 5s;
  c.resume_window = 60s;
  c.max_num_parked_reqs = 2;
  return c;
}

struct left_fixture : fixture {
  left_fixture() : fixture(patient()) {}

  ticket_id start_with_key(bool is_resumable = true, std::uint32_t max_tokens = 10) {
    const auto answer = s.reserve({.request = ++requests,
                                   .gateway = first_gateway,
                                   .model = "m",
                                   .resume_key = key,
                                   .is_resumable = is_resumable},
                                  now);
    REQUIRE(std::holds_alternative<granted>(answer));
    const auto& g = std::get<granted>(answer);
    CHECK(g.resume_key == key);
    s.admit(request(g.ticket, 5, max_tokens));
    return g.ticket;
  }
  void pass(std::chrono::milliseconds span) {
    now += span;
    s.tick(now);
    s.check_integrity();
  }
  baton::resume come_back(ticket_id ticket, std::uint64_t with = key,
                          process_id gateway = second_gateway) const {
    return {.request = 500, .gateway = gateway, .ticket = ticket, .resume_key = with, .from = {{}}};
  }
};

} // namespace

TEST_CASE(
    "a ticket whose gateway is gone runs for a grace period, then is suspended without blocks") {
  left_fixture f;
  const auto ticket = f.start_with_key();
  f.answer(f.next());
  f.s.orphan_all_of(first_gateway);
  f.pass(0s);
  f.pass(4s);
  CHECK(f.s.load().orphaned == 1);
  CHECK(f.s.load().running == 1);
  f.answer(f.next()); // it continues
  f.pass(1s);
  CHECK(f.s.load().running == 0);
  CHECK(f.s.load().waiting == 0); // it does not wait for a slot
  CHECK(f.s.load().blocks_used == 0);
  CHECK_FALSE(f.s.next());
  CHECK(f.s.resume(f.come_back(ticket)));
  f.run_all();
  const auto out = f.s.take();
  CHECK(out.tokens.back().finish == finish::length);
  CHECK(out.tokens.back().tokens_total == 10);
  f.check_at_rest();
}

TEST_CASE("one without a resume key ends with the grace period, a suspended one with the window") {
  left_fixture f;
  f.start_with_key(false);
  const auto suspended = f.start_with_key(true);
  f.answer(f.next());
  (void)f.s.take();
  f.s.orphan_all_of(first_gateway);
  f.pass(0s);
  f.pass(5s);
  auto out = f.s.take();
  REQUIRE(out.tokens.size() == 1);
  CHECK(out.tokens[0].ticket != suspended);
  CHECK(out.tokens[0].finish == finish::cancelled);
  f.pass(54s);
  CHECK(f.s.take().tokens.empty());
  f.pass(1s);
  out = f.s.take();
  REQUIRE(out.tokens.size() == 1);
  CHECK(out.tokens[0].ticket == suspended);
  CHECK(out.tokens[0].finish == finish::cancelled);
  CHECK_FALSE(f.s.resume(f.come_back(suspended)));
  f.check_at_rest();
}

TEST_CASE("a request already submitted when its gateway left is accepted, others end") {
  left_fixture f;
  const auto submitted = f.grant();
  f.grant();
  f.s.orphan_all_of(first_gateway);
  f.pass(0s);
  f.s.admit(f.request(submitted));
  f.answer(f.next());
  CHECK(f.s.take().tokens.at(0).ticket == submitted);
  f.pass(5s); // neither may be resumed
  f.check_at_rest();
}

TEST_CASE("only a client with the key and the number of choices may resume") {
  left_fixture f;
  const auto ticket = f.start_with_key();
  f.s.orphan_all_of(first_gateway);
  CHECK_FALSE(f.s.resume(f.come_back(ticket, key + 1)));
  CHECK_FALSE(f.s.resume(f.come_back({ticket.value + 1})));
  auto two = f.come_back(ticket);
  two.from.resize(2);
  CHECK_FALSE(f.s.resume(two));
  CHECK(f.s.load().orphaned == 1);
  CHECK(f.s.resume(f.come_back(ticket)));
  CHECK(f.s.load().orphaned == 0);
  CHECK(f.s.take().refusals.empty()); // no gateway to report the lost ticket to
}

TEST_CASE("the previous holder of a ticket is notified once that another has taken it") {
  left_fixture f;
  const auto ticket = f.start_with_key();
  CHECK(f.s.resume(f.come_back(ticket)));
  const auto out = f.s.take();
  REQUIRE(out.refusals.size() == 1);
  CHECK(out.refusals[0].gateway == first_gateway);
  CHECK(out.refusals[0].message.request == f.requests);
  CHECK(out.refusals[0].message.reason.code == errc::cancelled);
  CHECK(f.s.resume(f.come_back(ticket))); // a duplicate
  CHECK(f.s.take().refusals.empty());
  f.answer(f.next());
  const auto begun = f.s.take();
  CHECK(begun.tokens.at(0).gateway == second_gateway);
  CHECK(begun.tokens.at(0).request == 500);
}

TEST_CASE("a client that lost its connection is waited for only if it asked for that") {
  left_fixture f;
  const auto kept = f.start_with_key(true);
  const auto plain = f.start_with_key(false);
  for (const auto ticket : {kept, plain})
    f.s.cancel({.ticket = ticket, .choice = {}, .why = cancel_reason::client_lost, .reason = {}});
  CHECK(f.s.load().orphaned == 1);
  CHECK(f.s.resume(f.come_back(kept)));
  CHECK_FALSE(f.s.resume(f.come_back(plain)));
}

TEST_CASE("suspended tickets are not in the queue, and their number is bounded") {
  left_fixture f; // at most two
  std::vector<ticket_id> left;
  for (int i = 0; i < 3; ++i) {
    left.push_back(f.start_with_key());
    f.s.orphan_all_of(first_gateway);
    f.pass(1ms);
  }
  f.pass(5s);
  CHECK(f.s.load().orphaned == 2);
  CHECK_FALSE(f.s.resume(f.come_back(left[0])));
  for (int i = 0; i < 12; ++i)
    f.grant(); // 8 slots and 4 in the queue, as without them
  CHECK(f.refused() == errc::overloaded);
}

TEST_CASE("a ticket of an earlier incarnation continues after the delivered tokens") {
  auto config = small_config();
  config.first_ticket = {1000};
  config.max_num_queued_reqs = 0;
  fixture f(config);
  for (int i = 0; i < 8; ++i)
    f.grant(); // no room for a new request
  baton::reserve again{.request = 1, .gateway = first_gateway, .model = "m"};
  again.ticket = {17};
  f.s.drain();
  const auto answer = f.s.reserve(again, f.now);
  REQUIRE(std::holds_alternative<granted>(answer));
  CHECK(std::get<granted>(answer).ticket == ticket_id{17});
  CHECK(std::holds_alternative<rejected>(f.s.reserve(again, f.now))); // it is open
  again.ticket = {5000};
  CHECK(std::holds_alternative<rejected>(f.s.reserve(again, f.now))); // it was never granted

  auto a = f.request({17}, 5, 6);
  a.delivered = {{{21, 22, 23}, false}};
  f.s.admit(a);
  const auto batch = f.next();
  CHECK(batch.tokens == std::vector<token_id>{11, 11, 11, 11, 11, 21, 22, 23});
  CHECK(batch.draws.at(0).token_index == 3);
  f.answer(batch, 24);
  const auto out = f.s.take();
  REQUIRE(out.tokens.size() == 1);
  CHECK(out.tokens[0].begins);
  CHECK(out.tokens[0].index == 3);
  CHECK(out.tokens[0].delivered == ids_prompt{21, 22, 23});
  f.answer(f.next(), 25);
  f.answer(f.next(), 26);
  CHECK(f.s.take().tokens.back().tokens_total == 6);
}

TEST_CASE("positions that cannot have been delivered are refused by name") {
  auto config = small_config();
  config.first_ticket = {1000};
  using had = std::vector<delivered_choice>;
  for (const auto& delivered : {had{{{1}, false}, {{2}, false}}, had{{{100}, false}},
                                had{{{1, 2, 3, 4, 5, 6}, false}}, had{{{1}, true}}}) {
    fixture f(config);
    baton::reserve again{.request = 1, .gateway = first_gateway, .model = "m"};
    again.ticket = {17};
    REQUIRE(std::holds_alternative<granted>(f.s.reserve(again, f.now)));
    auto a = f.request({17}, 5, 6);
    a.delivered = delivered;
    f.s.admit(a);
    const auto out = f.s.take();
    REQUIRE(out.refusals.size() == 1);
    CHECK(out.refusals[0].message.reason.param == "delivered");
    f.check_at_rest();
  }
}

TEST_CASE("a choice finished in an earlier incarnation is not repeated, the others continue") {
  auto config = small_config();
  config.first_ticket = {1000};
  fixture f(config);
  baton::reserve again{.request = 1, .gateway = first_gateway, .model = "m", .choices = 2};
  again.ticket = {17};
  REQUIRE(std::holds_alternative<granted>(f.s.reserve(again, f.now)));
  auto a = f.request({17}, 5, 3);
  a.terms.choices = 2;
  a.delivered = {{{21, 22, 23}, true}, {{31}, false}};
  f.s.admit(a);
  f.s.check_integrity();
  f.run_all(32);
  const auto out = f.s.take();
  REQUIRE(out.tokens.size() == 2);
  for (const auto& m : out.tokens)
    CHECK(m.choice == 1);
  CHECK(out.tokens.back().tokens_total == 3);
  f.check_at_rest();
}

TEST_CASE("the number of an ended ticket is not granted again while rows of it are in flight") {
  left_fixture f;
  const auto ticket = f.start_with_key();
  const auto batch = f.next();
  f.s.cancel({.ticket = ticket, .choice = {}, .reason = {}});
  CHECK_FALSE(f.s.is_known(ticket));
  const reserve again{.request = ++f.requests,
                      .gateway = second_gateway,
                      .model = "m",
                      .resume_key = key,
                      .is_resumable = true,
                      .ticket = ticket};
  const auto refused = f.s.reserve(again, f.now);
  REQUIRE(std::holds_alternative<rejected>(refused));
  CHECK(std::get<rejected>(refused).reason.code == errc::conflict);
  f.answer(batch);
  REQUIRE(std::holds_alternative<granted>(f.s.reserve(again, f.now)));
  f.s.admit(f.request(ticket, 5, 10));
  CHECK(f.next().slices.size() == 1);
  f.s.check_integrity();
}
