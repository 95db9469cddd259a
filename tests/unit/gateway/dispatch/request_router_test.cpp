// Several pipelines behind one request router: which gets a request, and the effect of a loss on
// the others.
#include "gateway/admission/admission.hpp"
#include "tests/unit/gateway/dispatch/request_router_world.hpp"

using namespace baton;
using namespace baton::gateway;
using namespace baton::gateway::at_pipeline_client;

namespace {

const std::string long_prompt(2000, 'p');

} // namespace

TEST_CASE("two pipelines of a model share its requests") {
  request_router_world w({"m", "m"});
  for (int i = 0; i < 8; ++i) {
    w.open("request " + std::to_string(i));
  }
  CHECK(w.reserves(0) == 4);
  CHECK(w.reserves(1) == 4);
  CHECK(w.metrics().find(
            "baton_router_requests_total{engine=\"1\",model_name=\"m\",reason=\"load\"} 4") !=
        std::string::npos);
}

TEST_CASE("the same prefix goes to the same pipeline") {
  request_router_world w({"m", "m", "m"});
  const auto home = w.where(*w.open(long_prompt));
  w.open("something else");
  const auto again = w.open(long_prompt + "and more");
  CHECK(w.where(*again) == home);
  CHECK(w.metrics().find("reason=\"prefix\"} 1") != std::string::npos);
}

TEST_CASE(
    "the loss of one head leaves the streams of the other alone, and the server stays ready") {
  request_router_world w({"m", "m"});
  const auto a = w.open("a"), b = w.open("b");
  const auto of_a = *w.where(*a), of_b = *w.where(*b);
  REQUIRE(of_a != of_b);
  w.grant(of_a, *a, ticket_id{64 + of_a});
  w.grant(of_b, *b, ticket_id{64 + of_b});
  w.lose(of_a);
  CHECK(standing_of(*w.facts->look()).phase == phase::ready);
  chunk c;
  c.request = b->number();
  c.ticket = ticket_id{64 + of_b};
  c.index = c.count = 1;
  c.finish = finish::stop;
  w.deliver(of_b, chunks{{c}, {}});
  CHECK(std::holds_alternative<granted>(*b->next()));
  CHECK(std::get<chunk>(*b->next()).finish == finish::stop);
  for (int i = 0; i < 3; ++i) {
    CHECK(w.where(*w.open("new " + std::to_string(i))) == of_b);
  }
  CHECK(w.logs[of_a]->resumes.empty());
  w.report_ready(of_a);
  REQUIRE(w.logs[of_a]->resumes.size() == 1); // its own stream waits for it
  CHECK(w.logs[of_a]->resumes[0].request == a->number());
  CHECK(w.logs[of_b]->resumes.empty());
}

TEST_CASE("a client that resumes a ticket reaches the pipeline that granted it") {
  request_router_world w({"m", "m", "n"});
  for (std::uint32_t i = 0; i < 3; ++i) {
    CAPTURE(i);
    const auto out = w.new_stream();
    const ticket_id ticket{64 * 100 + i};
    w.ask(open_resume{out, i < 2 ? "m" : "n", ticket, 5, {{3, false}}});
    REQUIRE(w.logs[i]->resumes.size() == 1);
    CHECK(w.logs[i]->resumes[0].ticket == ticket);
  }
  const auto open = w.facts->requests_open();
  for (const std::uint64_t number : {6403ull, 6463ull, 6402ull}) { // the last: of "n"
    const auto out = w.new_stream();
    w.ask(open_resume{out, "m", ticket_id{number}, 5, {{3, false}}});
    const auto no = out->next();
    REQUIRE(no);
    CHECK(std::get<rejected>(*no).reason.code == errc::ticket_not_found);
    CHECK(std::get<rejected>(*no).request == out->number());
  }
  CHECK(w.facts->requests_open() == open);
}

TEST_CASE("a ZeroMQ client, which names no model, resumes at the model of its ticket") {
  request_router_world w({"m", "n"});
  admission opener(w.all.router, w.facts, "zmq");
  auto open = opener.resume({}, {}, {ticket_id{64 + 1}, 5, {{0, false}}}, true, nullptr);
  w.time.run();
  REQUIRE(open);
  CHECK(open->model() == "n");
  CHECK(w.logs[1]->resumes.size() == 1);
  open->close(cancel_reason::client_gone);
  w.time.run();
}

TEST_CASE("a request with a name goes to the same pipeline, ready or not") {
  request_router_world w({"m", "m", "m"});
  const auto home = *w.where(*w.open("x", "m", "order 66"));
  w.lose(home);
  const auto again = w.open("x", "m", "order 66");
  CHECK(w.where(*again) == home);
  w.report_ready(home);
  CHECK(w.reserves(home) == 4); // once more, for both: it is unknown what the head has received
}

TEST_CASE("a pipeline without a card is used once its card arrives") {
  request_router_world w({"m", "m"});
  std::string name;
  for (int i = 0; name.empty(); ++i) {
    if (w.where(*w.open("x", "m", "order " + std::to_string(i))) == 1) {
      name = "order " + std::to_string(i);
    }
  }
  request_router_world fresh({"m", "m"});
  fresh.facts->change([](snapshot& s) { s.pipelines[1].card.reset(); });
  const auto out = fresh.open("x", "m", name);
  REQUIRE(fresh.where(*out) == 1);
  fresh.report_ready(1);
  CHECK(fresh.reserves(1) == 2);
}

TEST_CASE("a request refused for load is offered to the others, once each") {
  request_router_world w({"m", "m", "m", "n"});
  const auto out = w.open(long_prompt);
  std::vector<bool> asked(3);
  for (int i = 0; i < 3; ++i) {
    CHECK_FALSE(out->next());
    for (std::uint32_t p = 0; p < 3; ++p) {
      if (!asked[p] && w.reserves(p) == 1) {
        asked[p] = true;
        w.refuse(p, *out, i == 1 ? errc::no_job_ticket : errc::overloaded);
        break;
      }
    }
  }
  CHECK(asked == std::vector<bool>(3, true));
  CHECK(std::get<rejected>(*out->next()).reason.code == errc::overloaded);
  CHECK(w.reserves(3) == 0);
  CHECK(w.facts->requests_open() == 0);
}

TEST_CASE("a request accepted by another pipeline finishes normally") {
  request_router_world w({"m", "m"});
  const auto out = w.open("hello");
  const auto first = *w.where(*out), second = 1 - first;
  w.refuse(first, *out, errc::not_ready);
  CHECK_FALSE(out->next());
  REQUIRE(w.reserves(second) == 1);
  CHECK(w.logs[second]->reserves[0].resume_key == w.logs[first]->reserves[0].resume_key);
  w.grant(second, *out, ticket_id{64 + second});
  REQUIRE(w.logs[second]->submits.size() == 1);
  CHECK(w.logs[second]->submits[0].input == prompt("hello"));
  CHECK(std::holds_alternative<granted>(*out->next()));
  SUBCASE("its client leaves") {
    w.ask(close_request{out->number(), cancel_reason::client_gone});
    CHECK(w.logs[second]->cancels.size() == 1);
    CHECK(w.logs[first]->cancels.empty());
  }
  SUBCASE("it ends") {
    chunk c;
    c.request = out->number();
    c.ticket = ticket_id{64 + second};
    c.index = c.count = 1;
    c.finish = finish::stop;
    w.deliver(second, chunks{{c}, {}});
    CHECK(std::get<chunk>(*out->next()).finish == finish::stop);
  }
  CHECK(w.facts->requests_open() == 0);
}

TEST_CASE("refusals that reach the client at once, without another pipeline") {
  request_router_world w({"m", "m"});
  SUBCASE("a refusal of the request itself") {
    const auto out = w.open("x");
    w.refuse(*w.where(*out), *out, errc::context_length_exceeded);
    CHECK(std::get<rejected>(*out->next()).reason.code == errc::context_length_exceeded);
  }
  SUBCASE("the refusal of a request with a name") {
    const auto out = w.open("x", "m", "order 66");
    w.refuse(*w.where(*out), *out, errc::overloaded);
    CHECK(std::get<rejected>(*out->next()).reason.code == errc::overloaded);
  }
  SUBCASE("the refusal of a granted ticket") {
    const auto out = w.open("x");
    const auto home = *w.where(*out);
    w.grant(home, *out, ticket_id{64 + home});
    w.refuse(home, *out, errc::overloaded);
    CHECK(std::holds_alternative<granted>(*out->next()));
    CHECK(std::get<rejected>(*out->next()).reason.code == errc::overloaded);
  }
  SUBCASE("that of the only ready pipeline") {
    w.lose(0);
    const auto out = w.open("x");
    w.refuse(1, *out, errc::overloaded);
    CHECK(std::get<rejected>(*out->next()).reason.code == errc::overloaded);
  }
  CHECK(w.reserves(0) + w.reserves(1) == 1);
  CHECK(w.facts->requests_open() == 0);
}

TEST_CASE("a request without a grant when the head is lost goes to another") {
  request_router_world w({"m", "m"});
  const auto out = w.open("x");
  const auto first = *w.where(*out), second = 1 - first;
  w.lose(first);
  CHECK(w.reserves(second) == 1);
  w.grant(first, *out, ticket_id{64 + first}); // was in flight
  REQUIRE(w.logs[first]->cancels.size() == 1);
  CHECK(w.logs[first]->cancels[0].ticket == ticket_id{64 + first});
  w.grant(second, *out, ticket_id{64 + second});
  CHECK(std::get<granted>(*out->next()).ticket == ticket_id{64 + second});
  w.lose(second);
  const auto waits = w.open("y"); // none serves: it stays where it is
  w.lose(*w.where(*waits));
  CHECK_FALSE(waits->next());
}

TEST_CASE("a request whose client leaves during its transfer is not served") {
  request_router_world w({"m", "m"});
  const auto out = w.open("x");
  const auto first = *w.where(*out), second = 1 - first;
  rejected no;
  no.request = out->number();
  no.reason = fail(errc::overloaded, "full");
  out->detach();
  caf::anon_send(w.all.pipeline_clients[first], no);
  caf::anon_send(w.all.router, close_request{out->number(), cancel_reason::client_gone});
  w.time.run();
  CHECK(w.reserves(second) == 0);
  CHECK(w.facts->requests_open() == 0);
}

TEST_CASE("questions go to a pipeline of their model") {
  request_router_world w({"m", "m", "n"});
  w.lose(0);
  w.ask(open_tokenize{w.new_stream(), std::string("x"), true, nullptr, "m"});
  w.ask(open_detokenize{w.new_stream(), {1}, nullptr, "n"});
  CHECK(w.logs[1]->tokenizes.size() == 1);
  CHECK(w.logs[2]->detokenizes.size() == 1);
}

TEST_CASE("two models, each with its own pipelines") {
  request_router_world w({"m", "n"});
  CHECK(w.where(*w.open("x", "m")) == 0);
  CHECK(w.where(*w.open("x", "n")) == 1);
  admission opener(w.all.router, w.facts, "http");
  generate g;
  g.model = "p";
  g.input = std::string("x");
  const auto open = opener.open({}, g, true, true, nullptr);
  REQUIRE_FALSE(open);
  CHECK(open.refusal().reason.message ==
        "the model 'p' does not exist; this server has 'm' and 'n'");
  g.model = "n";
  auto ok = opener.open({}, g, true, true, nullptr);
  w.time.run();
  REQUIRE(ok);
  CHECK(w.reserves(1) == 2);
}

TEST_CASE("the series of several pipelines are distinct, each name once") {
  request_router_world w({"m", "m"});
  for (std::uint32_t i = 0; i < 2; ++i) {
    load_report load;
    load.model = "m";
    load.running = 3 + i;
    load.stage_busy_micros = {1000};
    w.deliver(i, load);
  }
  const auto text = w.metrics();
  for (const auto* line :
       {"baton_requests_running{engine=\"0\",model_name=\"m\"} 3",
        "baton_requests_running{engine=\"1\",model_name=\"m\"} 4",
        "baton_stage_busy_seconds_total{engine=\"1\",model_name=\"m\",stage=\"0\"} 0.001"}) {
    CAPTURE(line);
    CHECK(text.find(line) != std::string::npos);
  }
  const std::string type = "# TYPE baton_requests_running";
  CHECK(text.find(type) == text.rfind(type));
}

TEST_CASE("with one pipeline there are no routing metrics") {
  request_router_world w({"m"});
  w.open(long_prompt);
  w.refuse(0, *w.open("x"), errc::overloaded);
  CHECK(w.reserves(0) == 2);
  CHECK(w.facts->requests_open() == 1);
  CHECK(w.metrics().find("baton_router") == std::string::npos);
}
