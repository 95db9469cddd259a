// A client that resumes a stream, and a head that lost its log: the rest of the text, and no more.
#include "tests/unit/actors/flow_world.hpp"

using namespace baton;
using namespace baton::actors;
using namespace baton::actors::flow;

TEST_CASE("a client that resumes a ticket gets the rest after any token, while it runs and later") {
  ids_prompt ids{10, 20, 30, 40};
  flow_world w;
  w.run();
  auto ticket = w.ask(ids, 24);
  w.run();
  const auto whole = w.of(ticket);
  for (const bool is_running : {true, false})
    for (std::uint32_t from = 0; from <= 24; ++from) {
      CAPTURE(is_running);
      CAPTURE(from);
      auto again = w.ask(ids, 24);
      if (is_running)
        while (w.of(again).ids.size() < from && w.coordinator().try_run_once()) {
        }
      else
        w.run();
      w.gateway.chunks.clear();
      const auto grants = w.gateway.grants.size();
      caf::anon_send(w.sched,
                     resume{900 + from, gateway_process, again, test_key, {{from, false}}});
      w.run();
      CHECK(w.gateway.grants.size() == grants + 1);
      CHECK(w.gateway.grants.back().request == 900 + from);
      std::string text;
      std::vector<token_id> rest;
      int ends = 0;
      for (const auto& c : w.gateway.chunks) {
        if (c.request != 900 + from)
          continue; // in flight to the previous holder of the ticket
        CHECK(c.index == from + rest.size() + c.count);
        rest.insert(rest.end(), c.ids.begin(), c.ids.end());
        text += c.text;
        ends += c.finish != finish::none;
      }
      CHECK(rest == std::vector<token_id>(whole.ids.begin() + from, whole.ids.end()));
      CHECK(whole.text.ends_with(text));
      CHECK(ends == 1);
      w.gateway.refusals.clear();
      while (w.gateway.grants.size() > grants)
        w.gateway.grants.pop_back(); // `ask` counts them
    }
}

TEST_CASE("a resume with a wrong key, a wrong number of choices or an unknown ticket is refused") {
  flow_world w;
  w.run();
  auto ticket = w.ask(ids_prompt{10, 20}, 6);
  w.run();
  const auto try_with = [&](const resume& m) {
    w.gateway.refusals.clear();
    caf::anon_send(w.sched, m);
    w.run();
    REQUIRE(w.gateway.refusals.size() == 1);
    CHECK(w.gateway.refusals[0].reason.code == errc::ticket_not_found);
  };
  try_with({900, gateway_process, ticket, test_key + 1, {{0, false}}});
  try_with({901, gateway_process, ticket, test_key, {{0, false}, {0, false}}});
  try_with({902, gateway_process, ticket, test_key, {}});
  try_with({903, gateway_process, ticket, test_key, {{7, false}}}); // more than was delivered
  try_with({904, gateway_process, {ticket.value + 100}, test_key, {{0, false}}});
}

TEST_CASE(
    "a resumed client gets the state that another head needs for recovery, and can recover there") {
  const ids_prompt ids{10, 20, 30, 40};
  const auto whole = oracle(ids, 24);
  for (const std::uint32_t had : {0U, 3U, 20U}) {
    CAPTURE(had);
    flow_world w;
    w.run();
    const auto ticket = w.ask(ids, 24);
    while (w.of(ticket).ids.size() < had || w.gateway.chunks.empty())
      REQUIRE(w.coordinator().try_run_once());
    caf::anon_send(w.sched, resume{900, gateway_process, ticket, test_key, {{had, false}}});
    while (w.gateway.grants.size() < 2)
      REQUIRE(w.coordinator().try_run_once());
    REQUIRE(w.gateway.reserves.size() == 1);
    REQUIRE(w.gateway.submits.size() == 1);
    auto r = w.gateway.reserves[0];
    auto s = w.gateway.submits[0];
    CHECK(r.ticket == ticket);
    CHECK(r.model == "toy");
    CHECK(r.resume_key == test_key);
    REQUIRE(s.delivered.size() == 1);
    CHECK(s.delivered[0].ids == std::vector<token_id>(whole.begin(), whole.begin() + had));
    flow_world other; // another head: it grants the tickets of the first one
    other.run();
    r.ticket = ticket_id{7};
    s.ticket = ticket_id{7};
    caf::anon_send(other.sched, r);
    other.run();
    caf::anon_send(other.tok, s);
    other.run();
    std::vector<token_id> rest;
    for (const auto& c : other.gateway.chunks)
      rest.insert(rest.end(), c.ids.begin(), c.ids.end());
    CHECK(rest == std::vector<token_id>(whole.begin() + had, whole.end()));
  }
}

TEST_CASE("a finished ticket has no recovery state") {
  flow_world w;
  w.run();
  const auto ticket = w.ask(ids_prompt{10, 20}, 6);
  w.run();
  caf::anon_send(w.sched, resume{900, gateway_process, ticket, test_key, {{2, false}}});
  w.run();
  CHECK(w.gateway.grants.size() == 2);
  CHECK(w.gateway.submits.empty());
}

TEST_CASE("a named request that is repeated runs once") {
  flow_world w;
  w.run();
  reserve first{1, gateway_process, "toy", 1, 10};
  first.resume_key = test_key;
  first.request_id = "order 66";
  first.request_digest = 5;
  reserve again = first;
  again.request = 2;
  again.resume_key = test_key + 1;
  const auto submit_for = [&](std::uint64_t request) {
    caf::anon_send(w.tok, greedy_submit(request, w.gateway.grants.back().ticket,
                                        ids_prompt{10, 20, 30, 40}, 24));
  };
  caf::anon_send(w.sched, first);
  w.run();
  REQUIRE(w.gateway.grants.size() == 1);
  const auto ticket = w.gateway.grants[0].ticket;
  SUBCASE("before it is submitted") {
    caf::anon_send(w.sched, again);
    w.run();
    REQUIRE(w.gateway.grants.size() == 2);
    CHECK_FALSE(w.gateway.grants[1].is_submitted);
    submit_for(2);
    submit_for(1); // it still arrives
    w.run();
  }
  SUBCASE("while it runs") {
    submit_for(1);
    while (w.gateway.chunks.empty())
      REQUIRE(w.coordinator().try_run_once());
    w.gateway.chunks.clear();
    caf::anon_send(w.sched, again);
    w.run();
    std::erase_if(w.gateway.chunks, [](const chunk& c) { return c.request == 1; });
  }
  SUBCASE("after its end") {
    submit_for(1);
    w.run();
    w.gateway.chunks.clear();
    caf::anon_send(w.sched, again);
    w.run();
  }
  REQUIRE(w.gateway.grants.size() == 2);
  CHECK(w.gateway.grants[1].request == 2);
  CHECK(w.gateway.grants[1].ticket == ticket);
  CHECK(w.gateway.grants[1].resume_key == test_key);
  const auto all = w.of(ticket);
  CHECK(all.ids == oracle({10, 20, 30, 40}, 24));
  CHECK(all.ends == 1);
  CHECK(all.last.request == 2);
  w.gateway.refusals.clear();
  again.request = 3;
  again.request_digest = 6; // for a different request
  caf::anon_send(w.sched, again);
  w.run();
  REQUIRE(w.gateway.refusals.size() == 1);
  CHECK(w.gateway.refusals[0].request == 3);
  CHECK(w.gateway.refusals[0].reason.code == errc::conflict);
}

TEST_CASE("a refused request can be repeated under its name") {
  flow_world w;
  w.run();
  reserve r{1, gateway_process, "toy", 1, 10};
  r.request_id = "order 66";
  caf::anon_send(w.sched, r);
  w.run();
  REQUIRE(w.gateway.grants.size() == 1);
  admit nothing;
  nothing.ticket = w.gateway.grants[0].ticket;
  nothing.terms.choices = 1;
  caf::anon_send(w.sched, nothing); // no prompt
  w.run();
  REQUIRE(w.gateway.refusals.size() == 1);
  r.request = 2;
  caf::anon_send(w.sched, r);
  w.run();
  REQUIRE(w.gateway.grants.size() == 2);
  CHECK(w.gateway.grants[1].ticket != w.gateway.grants[0].ticket);
}

TEST_CASE("a ticket resumed at a wrong position does not continue without a client") {
  flow_world w;
  w.run();
  const auto ticket = w.ask(ids_prompt{10, 20, 30, 40}, 24);
  while (w.of(ticket).ids.size() < 4)
    REQUIRE(w.coordinator().try_run_once());
  caf::anon_send(w.sched, resume{900, gateway_process, ticket, test_key, {{25, false}}});
  w.run();
  REQUIRE_FALSE(w.gateway.refusals.empty());
  CHECK(w.gateway.refusals.back().request == 900);
  CHECK(w.gateway.refusals.back().reason.code == errc::ticket_not_found);
  CHECK(w.of(ticket).ids.size() < 24);
  REQUIRE_FALSE(w.gateway.chunks.empty());
  CHECK(w.gateway.chunks.back().finish == finish::cancelled);
}

TEST_CASE("a new head continues after the position of its gateway, with the same text") {
  ids_prompt ids{10, 20, 30, 40};
  flow_world first;
  first.run();
  auto ticket = first.ask(ids, 24);
  first.run();
  const auto whole = first.of(ticket);
  for (std::uint32_t had = 0; had < 24; ++had) {
    CAPTURE(had);
    flow_world w; // its tickets begin above
    w.run();
    reserve r{1, gateway_process, "toy", 1, 10};
    r.resume_key = test_key;
    r.ticket = ticket_id{7};
    caf::anon_send(w.sched, r);
    w.run();
    REQUIRE(w.gateway.grants.size() == 1);
    CHECK(w.gateway.grants[0].ticket == ticket_id{7});
    auto s = greedy_submit(1, ticket_id{7}, ids, 24);
    s.delivered = {{ids_prompt(whole.ids.begin(), whole.ids.begin() + had), false}};
    caf::anon_send(w.tok, s);
    w.run();
    std::string text;
    std::vector<token_id> rest;
    for (const auto& c : w.gateway.chunks) {
      CHECK(c.index == had + rest.size() + c.count);
      rest.insert(rest.end(), c.ids.begin(), c.ids.end());
      text += c.text;
    }
    CHECK(rest == std::vector<token_id>(whole.ids.begin() + had, whole.ids.end()));
    CHECK(whole.text.ends_with(text));
    REQUIRE_FALSE(w.gateway.chunks.empty());
    CHECK(w.gateway.chunks.back().finish == finish::length);
    CHECK(w.gateway.chunks.back().output_tokens == 24);
  }
}
