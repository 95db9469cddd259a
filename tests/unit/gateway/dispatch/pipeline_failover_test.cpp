// The gateway actor under losses: of the head, a link, text, or the previous gateway.
#include "schema/digest.hpp"
#include "tests/unit/gateway/dispatch/pipeline_client_world.hpp"

using namespace baton;
using namespace baton::gateway;
using namespace baton::gateway::at_pipeline_client;

namespace {

// A request that its client may repeat.
generate named_request() {
  generate g;
  g.model = "m";
  g.input = std::string("hello");
  g.request_id = "order 66";
  return g;
}

} // namespace

TEST_CASE("while the head is lost streams wait; the loss of a shard changes nothing") {
  world w;
  auto running = w.open_granted();
  auto waiting = w.open();
  auto asked = w.new_stream();
  w.deliver(open_tokenize{asked, std::string("x"), true});
  w.deliver(actors::peer_down{process_id{9}, incarnation_id{1}, "a shard"});
  CHECK_FALSE(running->next());
  w.deliver(actors::peer_down{process_id{2}, incarnation_id{1}, "killed"});
  CHECK_FALSE(running->next());
  CHECK_FALSE(waiting->next());
  CHECK(std::get<failed>(*asked->next()).reason.code == errc::pipeline_lost);
  CHECK(standing_of(*w.facts->look()).phase == phase::recovering);
  CHECK(find_model(*w.facts->look(), {}, "m").error().code == errc::not_ready);
  w.time.advance_time(std::chrono::seconds(31));
  w.deliver(actors::tick{});
  CHECK(std::get<failed>(*running->next()).reason.code == errc::pipeline_lost);
  CHECK(std::get<failed>(*waiting->next()).reason.code == errc::queue_timeout);
  CHECK(w.facts->requests_open() == 0);
  w.head_is_back("m2");
  CHECK(standing_of(*w.facts->look()).phase == phase::ready);
  CHECK(w.facts->look()->pipelines[0].card->name == "m2");
}

TEST_CASE("counters of a head continue over its incarnations, and stay while it is away") {
  world w;
  const auto line = [&](std::string_view name) {
    const auto text = w.facts->metrics().text(*w.facts->look(), 0, {});
    const auto at = text.find("\n" + std::string(name) + "{");
    return at == text.npos ? std::string() : text.substr(at + 1, text.find('\n', at + 1) - at - 1);
  };
  const auto says = [&](std::uint64_t steps) {
    load_report load;
    load.model = "m";
    load.running = 1;
    load.steps = load.preemptions = steps;
    w.deliver(load);
  };
  hello head;
  head.role = role::head;
  head.process = {2};
  head.incarnation = {1};
  w.deliver(actors::peer_up{head});
  says(40);
  w.deliver(actors::peer_down{process_id{2}, incarnation_id{1}, "a link"});
  CHECK(line("baton_requests_running").empty()); // unknown
  CHECK(line("nv_inference_exec_count") == "nv_inference_exec_count{model=\"m\",version=\"1\"} 40");
  CHECK(line("baton_steps_total") == "baton_steps_total{engine=\"0\",model_name=\"m\"} 40");
  w.deliver(actors::peer_up{head}); // the same incarnation after a reconnect
  says(41);
  CHECK(line("nv_inference_exec_count").ends_with(" 41"));
  w.deliver(actors::peer_down{process_id{2}, incarnation_id{1}, "killed"});
  head.incarnation = {2};
  w.deliver(actors::peer_up{head});
  says(50); // more than before, from the new incarnation
  CHECK(line("nv_inference_exec_count").ends_with(" 91"));
  CHECK(line("vllm:num_preemptions_total").ends_with(" 91"));
  CHECK(line("baton_requests_running").ends_with(" 1"));
}

TEST_CASE("after a link has fallen a stream continues where it was") {
  world w;
  auto running = w.open_granted();
  auto waiting = w.open();
  w.deliver(chunk_for(*running, 2, 2));
  CHECK(running->next());
  const auto key = w.log->reserves.at(0).resume_key;
  CHECK(key != 0);
  CHECK(key != w.log->reserves.at(1).resume_key);
  w.lose_head();
  REQUIRE(w.log->resumes.size() == 1);
  const auto& asked = w.log->resumes[0];
  CHECK(asked.request == running->number());
  CHECK(asked.ticket == ticket_id{77});
  CHECK(asked.resume_key == key);
  CHECK(asked.from == std::vector<resume_point>{{2, false}});
  REQUIRE(w.log->reserves.size() == 3); // the one without a ticket reserves again
  CHECK(w.log->reserves[2].request == waiting->number());
  w.deliver(granted{running->number(), ticket_id{77}, epoch_id{1}, key});
  CHECK_FALSE(running->next()); // its client already knows
  w.deliver(chunk_for(*running, 5, 3, finish::stop));
  CHECK(std::get<chunk>(*running->next()).index == 5);
  CHECK(w.facts->requests_open() == 1);
}

TEST_CASE("a request that its client has repeated is not submitted again") {
  world w;
  auto out = w.new_stream();
  auto g = named_request();
  w.deliver(open_generate{out, g, true});
  REQUIRE(w.log->reserves.size() == 1);
  const auto asked = w.log->reserves[0];
  CHECK(asked.request_id == "order 66");
  CHECK(asked.is_resumable);
  CHECK(asked.request_digest == digest_of(g, true));
  CHECK(asked.request_digest != digest_of(g, false));
  g.input = std::string("hallo");
  CHECK(asked.request_digest != digest_of(g, true));
  w.deliver(granted{out->number(), ticket_id{77}, {}, 4711, true});
  CHECK(w.log->submits.empty());
  CHECK(std::get<granted>(*out->next()).resume_key == 4711);
  w.deliver(chunk_for(*out, 2, 2));
  CHECK(std::get<chunk>(*out->next()).index == 2);
  w.lose_head();
  REQUIRE(w.log->resumes.size() == 1); // with the ticket's key
  CHECK(w.log->resumes[0].resume_key == 4711);
  CHECK(w.log->resumes[0].from == std::vector<resume_point>{{2, false}});
}

TEST_CASE("a ticket reserved by a previous gateway keeps its resume key") {
  world w;
  auto out = w.new_stream();
  w.deliver(open_generate{out, named_request(), true});
  w.deliver(granted{out->number(), ticket_id{77}, {}, 4711, false});
  CHECK(std::get<granted>(*out->next()).resume_key == 4711);
  REQUIRE(w.log->submits.size() == 1);
  auto given = chunk_for(*out, 2, 2);
  given.ids = {5, 6};
  w.deliver(given);
  w.lose_head();
  REQUIRE(w.log->resumes.size() == 1);
  CHECK(w.log->resumes[0].resume_key == 4711);
  w.deliver(
      rejected{out->number(), ticket_id{77}, fail(errc::ticket_not_found, "a new head"), {}, 0});
  CHECK(w.log->reserves.back().ticket == ticket_id{77});
  CHECK(w.log->reserves.back().resume_key == 4711); // the one its client has
}

TEST_CASE("a stream that came from another gateway can be recovered at another head") {
  world w;
  auto out = w.new_stream();
  w.deliver(open_resume{out, "m", ticket_id{77}, 5, {{2, false}, {4, false}}});
  reserve r{out->number(), process_id{1}, "m", 2, 50, 3, 5, true, ticket_id{77}};
  submit s;
  s.request = out->number();
  s.ticket = ticket_id{77};
  s.input = ids_prompt{1, 2, 3};
  s.terms.choices = 2;
  s.delivered = {{{10, 11}, false}, {{20, 21, 22, 23}, false}};
  bool can_be_sent = false;
  bool is_overtaken = false;
  SUBCASE("as requested, with the tokens before it and since") {
    w.deliver(r);
    w.deliver(s);
    can_be_sent = true;
  }
  SUBCASE("also if the grant arrives before the request, which waits for credit") {
    w.deliver(r);
    can_be_sent = is_overtaken = true;
  }
  SUBCASE("not if the client's position is unknown") {
    s.delivered[1] = {{}, true}; // its end is on the way
    w.deliver(r);
    w.deliver(s);
  }
  SUBCASE("not if the head has not answered") {}
  w.deliver(granted{out->number(), ticket_id{77}, {}, 5});
  CHECK(std::holds_alternative<granted>(*out->next())); // its client is informed in any case
  if (is_overtaken)
    w.deliver(s);
  auto c = chunk_for(*out, 3, 1);
  c.ids = {12};
  w.deliver(c);
  CHECK(std::get<chunk>(*out->next()).index == 3);
  w.lose_head_and_log(*out);
  REQUIRE(w.log->reserves.size() == (can_be_sent ? 1 : 0));
  if (!can_be_sent) {
    CHECK(std::get<rejected>(*out->next()).reason.code == errc::ticket_not_found);
    return;
  }
  CHECK(w.log->reserves[0].ticket == ticket_id{77});
  CHECK(w.log->reserves[0].priority == 3);
  w.deliver(granted{out->number(), ticket_id{77}, epoch_id{2}, 5});
  REQUIRE(w.log->submits.size() == 1);
  const auto& again = w.log->submits[0];
  CHECK(std::get<ids_prompt>(again.input) == ids_prompt{1, 2, 3});
  REQUIRE(again.delivered.size() == 2);
  CHECK(again.delivered[0].ids == ids_prompt{10, 11, 12});
  CHECK(again.delivered[1].ids == ids_prompt{20, 21, 22, 23});
}

TEST_CASE("a new link to the head implies that the old one fell, reported or not") {
  world w;
  auto running = w.open_granted();
  hello head;
  head.process = process_id{9};
  w.deliver(actors::peer_up{head}); // a shard's
  w.head_is_back();
  CHECK(w.log->resumes.empty());
  head.process = process_id{2};
  w.deliver(actors::peer_up{head});
  w.head_is_back();
  REQUIRE(w.log->resumes.size() == 1);
  CHECK(w.log->resumes[0].request == running->number());
}

TEST_CASE("a head that lost its log receives the ticket, with the delivered tokens") {
  world w;
  auto out = w.open_granted(2);
  auto c = chunk_for(*out, 2, 2);
  c.ids = {41, 42};
  w.deliver(c);
  CHECK(out->next());
  for (int life = 1; life <= 2; ++life) {
    CAPTURE(life);
    w.lose_head_and_log(*out);
    CHECK_FALSE(out->next());
    const auto& again = w.log->reserves.back();
    CHECK(again.ticket == ticket_id{77});
    CHECK(again.resume_key == w.log->reserves.front().resume_key);
    w.deliver(granted{out->number(), ticket_id{77}, epoch_id{1}, again.resume_key});
    CHECK_FALSE(out->next());
    REQUIRE(w.log->submits.size() == static_cast<std::size_t>(1 + life));
    CHECK(w.log->submits.back().input == prompt("hello"));
    CHECK(w.log->submits.back().delivered ==
          std::vector<delivered_choice>{{{41, 42}, false}, {{}, false}});
  }
  w.deliver(chunk_for(*out, 3, 1, finish::stop));
  CHECK(std::get<chunk>(*out->next()).index == 3);
}

TEST_CASE(
    "a client that left during the recovery of its ticket is gone when the head is lost again") {
  world w;
  auto out = w.open_granted();
  w.lose_head_and_log(*out);
  w.deliver(close_request{out->number()});
  w.deliver(actors::peer_down{process_id{2}, incarnation_id{1}, "killed again"});
  CHECK(w.facts->requests_open() == 0);
}

TEST_CASE("a late refusal of a ticket from before the loss does not end the repeated request") {
  world w;
  auto out = w.open_granted();
  rejected no;
  no.request = out->number();
  no.ticket = ticket_id{76};
  no.reason = fail(errc::queue_timeout, "nothing was submitted");
  w.deliver(no);
  CHECK_FALSE(out->next());
  CHECK(w.facts->requests_open() == 1);
}

TEST_CASE("a client that resumes at another gateway gets the missing tokens") {
  world w;
  auto out = w.new_stream();
  w.deliver(open_resume{out, "m", ticket_id{77}, 5, {{3, false}, {9, true}}});
  REQUIRE(w.log->resumes.size() == 1);
  CHECK(w.log->resumes[0].resume_key == 5);
  CHECK(w.log->resumes[0].from == std::vector<resume_point>{{3, false}, {9, true}});
  w.deliver(granted{out->number(), ticket_id{77}, {}, 5});
  CHECK(std::get<granted>(*out->next()).resume_key == 5);
  w.deliver(chunk_for(*out, 4, 1));
  CHECK(std::get<chunk>(*out->next()).index == 4);
  // The request itself is unknown here: it cannot be recovered at a head without a log.
  w.lose_head();
  REQUIRE(w.log->resumes.size() == 2);
  CHECK(w.log->resumes[1].from == std::vector<resume_point>{{4, false}, {9, true}});
  rejected no;
  no.request = out->number();
  no.ticket = ticket_id{77};
  no.reason = fail(errc::ticket_not_found, "a new life");
  w.deliver(no);
  CHECK(std::get<rejected>(*out->next()).reason.code == errc::ticket_not_found);
  CHECK(w.facts->requests_open() == 0);
}
