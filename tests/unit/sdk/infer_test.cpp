// The C++ SDK with worker models, against scripted servers: pieces in order, failures, dropped
// answers, and a server that disconnects.
#include "schema/limits.hpp"
#include "sdk/cpp/baton/client.hpp"
#include "tests/unit/sdk/connected.hpp"
#include "tests/unit/sdk/fake_server.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace std::chrono_literals;
using baton::test::connected;
using baton::test::fake_server;
using baton::test::patience;

namespace {

infer infer_question(std::string body = "x") {
  infer q;
  q.model = "upper";
  q.body = std::move(body);
  return q;
}

// Answers with these bodies, one piece each; with `ends` the last one is marked.
fake_server::script sends_bodies(std::vector<std::string> bodies, bool ends = true) {
  return [bodies, ends](fake_server& server, fake_server::peer& to, const message& m) {
    const auto* asked = std::get_if<infer>(&m);
    if (asked == nullptr)
      return;
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      inferred piece;
      piece.request = asked->request;
      piece.index = static_cast<std::uint32_t>(i);
      piece.is_last = ends && i + 1 == bodies.size();
      piece.body = bodies[i];
      server.send(to, piece);
    }
  };
}

bool is_cancel(const message& m) {
  return std::holds_alternative<cancel_infer>(m);
}

} // namespace

TEST_CASE("pieces come in order, then nothing, and the server receives the whole request") {
  fake_server server(sends_bodies({"a", "b", "c"}));
  auto c = connected(server);
  auto q = infer_question();
  q.version = "2";
  q.inputs = {{"x", "FP32", {1}, "1234"}};
  q.outputs = {"y"};
  q.parameters = R"({"priority": 1})";
  q.headers = {{"n", "v"}};
  q.request_id = "r";
  q.deadline = 1500ms;
  auto answer = c.infer_stream(q);
  REQUIRE(answer);
  std::string bodies;
  for (auto p = answer->next(patience); p && *p; p = answer->next(patience))
    bodies += (*p)->body;
  CHECK(bodies == "abc");
  CHECK_FALSE(answer->is_open());
  CHECK(server.has_received([](const message& m) {
    const auto* i = std::get_if<infer>(&m);
    return i != nullptr && i->model == "upper" && i->version == "2" && i->inputs.size() == 1 &&
           i->outputs == std::vector<std::string>{"y"} && i->parameters == R"({"priority": 1})" &&
           i->headers.size() == 1 && i->request_id == "r" && i->deadline == 1500ms;
  }));
  server.close();
  CHECK(server.faults.empty());
  const auto all = server.received();
  CHECK(std::none_of(all.begin(), all.end(), is_cancel));
}

TEST_CASE("infer returns a single piece, also with an empty last one, and rejects several") {
  for (const auto& bodies : {std::vector<std::string>{"a"}, {"a", ""}, {""}}) {
    fake_server server(sends_bodies(bodies));
    auto one = connected(server).infer(infer_question(), patience);
    REQUIRE(one);
    CHECK(one->body == bodies[0]);
  }
  fake_server server(sends_bodies({"a", "b"}, /*ends=*/false));
  auto several = connected(server).infer(infer_question(), patience);
  REQUIRE_FALSE(several);
  CHECK(several.error().code == errc::invalid_value);
  CHECK(server.has_received(is_cancel));
}

TEST_CASE("a rejection, a failure and a request beyond the limits are errors") {
  fake_server server([](fake_server& d, fake_server::peer& to, const message& m) {
    const auto* asked = std::get_if<infer>(&m);
    if (asked == nullptr)
      return;
    if (asked->body == "refuse")
      return void(d.send(to, rejected{asked->request, {}, fail(errc::overloaded, "full"), 1s, 3}));
    inferred piece;
    piece.request = asked->request;
    piece.is_last = true;
    piece.failure = fail(errc::handler_failed, "it broke");
    d.send(to, piece);
  });
  auto c = connected(server);
  CHECK(c.infer(infer_question("refuse"), patience).error().code == errc::overloaded);
  const auto failed = c.infer(infer_question("fail"), patience);
  REQUIRE_FALSE(failed);
  CHECK(failed.error().message == "it broke");
  auto large = infer_question(std::string(limits::infer_bytes_max + 1, 'x'));
  CHECK(c.infer(large, patience).error().code == errc::payload_too_large);
}

TEST_CASE("a dropped answer is cancelled by its number, a late piece may be awaited") {
  fake_server server(sends_bodies({"a"}, /*ends=*/false));
  auto c = connected(server);
  {
    auto answer = c.infer_stream(infer_question());
    REQUIRE(answer);
    REQUIRE(*answer->next(patience));
    const auto late = answer->next(10ms);
    REQUIRE_FALSE(late);
    CHECK(late.error().code == errc::deadline_exceeded);
    CHECK(answer->is_open());
  }
  CHECK(server.has_received([](const message& m) {
    const auto* gone = std::get_if<cancel_infer>(&m);
    return gone != nullptr && gone->request == 1;
  }));
}

TEST_CASE("after a reconnect, requests that had not begun are sent again, others fail") {
  auto server =
      std::make_unique<fake_server>([](fake_server& d, fake_server::peer& to, const message& m) {
        if (const auto* asked = std::get_if<infer>(&m); asked != nullptr && asked->body == "begun")
          sends_bodies({"half"}, /*ends=*/false)(d, to, m);
      });
  const auto endpoint = server->endpoint();
  auto c = connected(*server);
  auto begun = c.infer_stream(infer_question("begun"));
  auto waiting = c.infer_stream(infer_question("waiting"));
  REQUIRE(begun);
  REQUIRE(waiting);
  REQUIRE(*begun->next(patience));
  REQUIRE(server->has_received([](const message& m) {
    const auto* asked = std::get_if<infer>(&m);
    return asked != nullptr && asked->body == "waiting";
  }));
  server.reset();
  fake_server::server_options there;
  there.at = endpoint;
  fake_server next(
      [](fake_server& d, fake_server::peer& to, const message& m) {
        if (const auto* l = std::get_if<list_models>(&m)) {
          models listed{l->request, {model_card{}}};
          listed.cards[0].phase = phase::ready;
          d.send(to, listed);
        }
        sends_bodies({"whole"})(d, to, m);
      },
      there);
  auto again = waiting->next(patience);
  REQUIRE_MESSAGE(again, again.error().message);
  CHECK((*again)->body == "whole");
  auto rest = begun->next(patience);
  REQUIRE_FALSE(rest);
  CHECK(rest.error().code == errc::link_down);
  CHECK_FALSE(begun->is_open());
  CHECK(c.infer(infer_question(), patience)->body == "whole");
}
