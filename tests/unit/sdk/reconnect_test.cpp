// A C++ client that loses its server resumes its streams: against scripted servers.
#include "sdk/cpp/baton/client.hpp"
#include "tests/unit/sdk/connected.hpp"
#include "tests/unit/sdk/fake_server.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace std::chrono_literals;
using baton::test::connected;
using baton::test::fake_server;
using baton::test::patience;
using baton::test::silent;

namespace {

constexpr ticket_id the_ticket{9};
constexpr std::uint64_t the_key = 0xC0FFEE;

chunk choice_chunk(std::uint32_t choice, std::uint32_t index, std::string text,
                   finish end = finish::none) {
  chunk c;
  c.ticket = the_ticket;
  c.choice = choice;
  c.index = index;
  c.text = std::move(text);
  c.finish = end;
  return c;
}

// Grants what is requested or resumed, and sends the chunks.
fake_server::script grants(std::vector<chunk> chunks) {
  return [chunks](fake_server& server, fake_server::peer& to, const message& m) {
    std::uint64_t request = 0;
    if (const auto* g = std::get_if<generate>(&m))
      request = g->request;
    if (const auto* r = std::get_if<resume>(&m))
      request = r->request;
    if (request == 0)
      return;
    server.send(to, granted{request, the_ticket, {1}, the_key});
    for (auto c : chunks) {
      c.request = request;
      server.send(to, c);
    }
  };
}

// Reports a served model from the second request on.
fake_server::script serving(fake_server::script answers) {
  return
      [answers, asked = 0](fake_server& server, fake_server::peer& to, const message& m) mutable {
        const auto* l = std::get_if<list_models>(&m);
        if (l == nullptr)
          return answers(server, to, m);
        models listed{l->request, {}};
        if (++asked > 1) {
          listed.cards.resize(1);
          listed.cards[0].phase = phase::ready;
        }
        server.send(to, listed);
      };
}

template <class Kind>
std::vector<Kind> asked_of(const fake_server& server) {
  std::vector<Kind> all;
  for (const auto& m : server.received())
    if (const auto* found = std::get_if<Kind>(&m))
      all.push_back(*found);
  return all;
}

template <class Kind>
bool is_kind(const message& m) {
  return std::holds_alternative<Kind>(m);
}

bool cancels_it(const message& m) {
  const auto* ended = std::get_if<cancel>(&m);
  return ended != nullptr && ended->ticket == the_ticket;
}

generate choices_question(std::uint32_t choices = 1) {
  generate g;
  g.model = "tiny";
  g.input = std::string("x");
  g.terms.choices = choices;
  return g;
}

std::string next_text(stream& s) {
  auto part = s.next(patience);
  REQUIRE_MESSAGE(part, part.error().message);
  REQUIRE(*part);
  return (*part)->text;
}

bool is_over(stream& s) {
  auto part = s.next(patience);
  return part && !*part;
}

} // namespace

TEST_CASE("a stream continues after its last chunk when the server is back") {
  fake_server first(grants({choice_chunk(0, 2, "Once"), choice_chunk(1, 1, "x", finish::stop)}));
  auto c = connected(first);
  auto s = c.generate(choices_question(2));
  REQUIRE(s);
  CHECK(next_text(*s) == "Once");
  CHECK(next_text(*s) == "x");
  first.close();
  fake_server back(
      serving(grants({choice_chunk(1, 1, "", finish::stop), choice_chunk(0, 3, " upon"),
                      choice_chunk(0, 4, "!", finish::stop)})),
      {.at = first.endpoint()});
  CHECK(next_text(*s) == " upon");
  CHECK(next_text(*s) == "!");
  CHECK(is_over(*s));
  CHECK(asked_of<generate>(first).at(0).is_resumable);
  CHECK(asked_of<generate>(back).empty());
  const auto resumed = asked_of<resume>(back);
  REQUIRE(resumed.size() == 1);
  CHECK(resumed[0].ticket == the_ticket);
  CHECK(resumed[0].resume_key == the_key);
  CHECK(resumed[0].from == std::vector<resume_point>{{2, false}, {1, true}});
  back.close();
  CHECK(first.faults.empty());
  CHECK(back.faults.empty());
}

TEST_CASE("a stream that is granted again continues, and is cancelled, by the new ticket") {
  const ticket_id second{the_ticket.value + 1};
  const auto moves = [&](fake_server& server, fake_server::peer& to, const message& m) {
    if (const auto* g = std::get_if<generate>(&m)) {
      grants({choice_chunk(0, 1, "a")})(server, to, m);
      server.send(to, granted{g->request, second, {1}, the_key + 1});
      auto c = choice_chunk(0, 2, "b");
      c.request = g->request;
      c.ticket = second;
      server.send(to, c);
    }
  };
  fake_server first(moves);
  auto c = connected(first);
  auto s = c.generate(choices_question(1));
  REQUIRE(s);
  CHECK(next_text(*s) == "a");
  CHECK(next_text(*s) == "b");
  CHECK(s->ticket() == second);
  first.close();
  const auto goes_on = [&, request = std::uint64_t{0}](fake_server& server, fake_server::peer& to,
                                                       const message& m) mutable {
    auto piece = choice_chunk(0, 3, "c");
    if (const auto* r = std::get_if<resume>(&m)) {
      request = r->request;
      server.send(to, granted{request, r->ticket, {1}, r->resume_key});
    } else if (const auto* ended = std::get_if<cancel>(&m)) {
      piece.text = ended->ticket == second ? "ended" : "whose?";
      piece.finish = finish::cancelled;
    } else {
      return;
    }
    piece.request = request;
    server.send(to, piece);
  };
  fake_server back(serving(goes_on), {.at = first.endpoint()});
  CHECK(next_text(*s) == "c");
  const auto resumed = asked_of<resume>(back);
  REQUIRE(resumed.size() == 1);
  CHECK(resumed[0].ticket == second);
  CHECK(resumed[0].resume_key == the_key + 1);
  CHECK(resumed[0].from == std::vector<resume_point>{{2, false}});
  s->cancel();
  CHECK(next_text(*s) == "ended");
}

TEST_CASE("after a gap or silence the client greets the same server as a new incarnation") {
  for (const bool is_gap : {true, false}) {
    CAPTURE(is_gap);
    std::vector<incarnation_id> incarnations;
    const auto script = [&](fake_server& server, fake_server::peer& to, const message& m) {
      incarnations.push_back(to.last.source_incarnation);
      if (!std::holds_alternative<generate>(m))
        return grants({choice_chunk(0, 2, "b", finish::stop)})(server, to, m);
      grants({choice_chunk(0, 1, "a")})(server, to, m);
      if (is_gap) {
        ++to.sequence;
        server.send(to, choice_chunk(0, 2, "lost"));
      }
    };
    fake_server server(serving(script), {.sends_heartbeats = false});
    client_options options;
    options.silence_max = 200ms;
    auto c = connected(server, options);
    auto answers = c.complete(choices_question(), patience);
    REQUIRE_MESSAGE(answers, answers.error().message);
    CHECK(answers->at(0).text == "ab");
    server.close();
    CHECK(incarnations.front() < incarnations.back());
  }
}

TEST_CASE("unanswered requests are sent again, and calls made meanwhile wait") {
  fake_server first(silent);
  auto c = connected(first);
  auto s = c.generate(choices_question());
  REQUIRE(s);
  REQUIRE(first.has_received(is_kind<generate>));
  first.close();
  auto late = c.generate(choices_question());
  REQUIRE(late);
  CHECK(c.is_open());
  const auto answers = [](fake_server& server, fake_server::peer& to, const message& m) {
    if (const auto* d = std::get_if<detokenize>(&m))
      server.send(to, detokenized{d->request, "words", {}});
    grants({choice_chunk(0, 1, "text", finish::stop)})(server, to, m);
  };
  fake_server back(serving(answers), {.at = first.endpoint()});
  auto words = c.detokenize({1});
  REQUIRE_MESSAGE(words, words.error().message);
  CHECK(*words == "words");
  CHECK(next_text(*s) == "text");
  CHECK(next_text(*late) == "text");
}

TEST_CASE("a rejected resume ends that stream alone") {
  fake_server first(grants({choice_chunk(0, 1, "a")}));
  auto c = connected(first);
  auto s = c.generate(choices_question());
  REQUIRE(s);
  CHECK(next_text(*s) == "a");
  first.close();
  const auto refuses = [](fake_server& server, fake_server::peer& to, const message& m) {
    if (const auto* r = std::get_if<resume>(&m)) {
      rejected no;
      no.request = r->request;
      no.reason = fail(errc::ticket_not_found, "it has been too long");
      server.send(to, no);
    } else {
      grants({choice_chunk(0, 1, "ok", finish::stop)})(server, to, m);
    }
  };
  fake_server back(serving(refuses), {.at = first.endpoint()});
  auto part = s->next(patience);
  REQUIRE_FALSE(part);
  CHECK(part.error().code == errc::ticket_not_found);
  CHECK(c.complete(choices_question(), patience)->at(0).text == "ok");
}

TEST_CASE("a stream dropped while the server was away is cancelled when it is back") {
  fake_server first(grants({choice_chunk(0, 1, "a")}));
  auto c = connected(first);
  auto s = c.generate(choices_question());
  auto other = c.generate(choices_question());
  REQUIRE(s);
  REQUIRE(other);
  CHECK(next_text(*s) == "a");
  CHECK(next_text(*other) == "a");
  first.close();
  { auto dropped = std::move(*s); }
  fake_server back(serving(grants({})), {.at = first.endpoint()});
  CHECK(back.has_received(cancels_it));
}

TEST_CASE("a stream dropped before its ticket is known is cancelled once it is") {
  std::uint64_t waiting = 0;
  fake_server server([&waiting](fake_server& d, fake_server::peer& to, const message& m) {
    if (const auto* g = std::get_if<generate>(&m))
      waiting = g->request;
    if (const auto* l = std::get_if<list_models>(&m)) {
      d.send(to, granted{waiting, the_ticket, {1}, the_key});
      d.send(to, models{l->request, {}});
    }
  });
  auto c = connected(server);
  { auto dropped = c.generate(choices_question()); }
  REQUIRE(c.models()); // makes the server grant the ticket
  CHECK(server.has_received(cancels_it));
}

TEST_CASE("a server that stays away is lost with the reason, and the client closes at once") {
  fake_server server(silent);
  auto c = connected(server, {.reconnect_timeout = 100ms});
  auto waits = connected(server);
  auto s = c.generate(choices_question());
  REQUIRE(s);
  REQUIRE(server.has_received(is_kind<generate>));
  server.close();
  auto part = s->next(patience);
  REQUIRE_FALSE(part);
  CHECK(part.error().code == errc::link_down);
  CHECK(part.error().message == "the gateway closed the connection");
  CHECK_FALSE(c.is_open());
  CHECK(waits.is_open());
  const auto began = std::chrono::steady_clock::now();
  { auto dropped = std::move(waits); }
  CHECK(std::chrono::steady_clock::now() - began < 1s);
}

TEST_CASE("a request that loses each connection ends within the reconnect timeout") {
  const auto loses = [](fake_server& server, fake_server::peer& to, const message& m) {
    if (const auto* l = std::get_if<list_models>(&m)) {
      models listed{l->request, {}};
      listed.cards.resize(1);
      listed.cards[0].phase = phase::ready;
      server.send(to, listed);
    } else if (const auto* g = std::get_if<generate>(&m)) {
      ++to.sequence; // a gap
      server.send(to, granted{g->request, the_ticket, {1}, the_key});
    }
  };
  fake_server server(loses);
  const auto began = std::chrono::steady_clock::now();
  client_options options;
  options.reconnect_timeout = 1s;
  auto c = connected(server, options);
  auto s = c.generate(choices_question(1));
  REQUIRE(s);
  const auto part = s->next(patience);
  REQUIRE(!part);
  CHECK(part.error().code == errc::link_down);
  CHECK(std::chrono::steady_clock::now() - began < 4s);
  // After 0, 20, 40, 80, 160, 320 and 640 ms.
  const auto asked = asked_of<generate>(server).size();
  CHECK(asked >= 3);
  CHECK(asked <= 8);
}
