// The gateway actor when something is lost: the head, a link, text, or the gateway that was before
// it.
#include "schema/digest.hpp"
#include "tests/unit/gateway/dispatch/pipeline_client_world.hpp"

using namespace baton;
using namespace baton::gateway;
using namespace baton::gateway::at_pipeline_client;

namespace {

// Which its client may ask for again.
generate named_request() {
  generate g;
  g.model = "m";
  g.input = std::string("hello");
  g.request_id = "order 66";
  return g;
}

} // namespace

TEST_CASE("while the head is lost streams wait; a shard's loss changes nothing") {
  world w;
  auto running = w.open_granted();
  auto waiting = w.open();
  auto asked = w.new_stream();
  w.tell(open_tokenize{asked, std::string("x"), true});
  w.tell(actors::peer_down{process_id{9}, epoch_id{1}, "a shard"});
  CHECK_FALSE(running->next());
  w.tell(actors::peer_down{process_id{2}, epoch_id{1}, "killed"});
  CHECK_FALSE(running->next());
  CHECK_FALSE(waiting->next());
  CHECK(std::get<failed>(*asked->next()).reason.code == errc::pipeline_lost);
  CHECK(standing_of(*w.facts->look()).phase == phase::recovering);
  CHECK(find_model(*w.facts->look(), {}, "m").error().code == errc::not_ready);
  w.time.advance_time(std::chrono::seconds(31));
  w.tell(actors::tick{});
  CHECK(std::get<failed>(*running->next()).reason.code == errc::pipeline_lost);
  CHECK(std::get<failed>(*waiting->next()).reason.code == errc::queue_timeout);
  CHECK(w.facts->requests_open() == 0);
  w.head_is_back("m2");
  CHECK(standing_of(*w.facts->look()).phase == phase::ready);
  CHECK(w.facts->look()->pipelines[0].card->name == "m2");
}

TEST_CASE("counters of a head go on over its lives, and stay while it is away") {
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
    w.tell(load);
  };
  hello head;
  head.role = role::head;
  head.process = {2};
  head.incarnation = {1};
  w.tell(actors::peer_up{head});
  says(40);
  w.tell(actors::peer_down{process_id{2}, epoch_id{1}, "a link"});
  CHECK(line("baton_requests_running").empty()); // nobody knows
  CHECK(line("nv_inference_exec_count") == "nv_inference_exec_count{model=\"m\",version=\"1\"} 40");
  CHECK(line("baton_steps_total") == "baton_steps_total{engine=\"0\",model_name=\"m\"} 40");
  w.tell(actors::peer_up{head}); // the same life behind a new link
  says(41);
  CHECK(line("nv_inference_exec_count").ends_with(" 41"));
  w.tell(actors::peer_down{process_id{2}, epoch_id{1}, "killed"});
  head.incarnation = {2};
  w.tell(actors::peer_up{head});
  says(50); // more than before, of the new life
  CHECK(line("nv_inference_exec_count").ends_with(" 91"));
  CHECK(line("vllm:num_preemptions_total").ends_with(" 91"));
  CHECK(line("baton_requests_running").ends_with(" 1"));
}

TEST_CASE("behind a link that fell a stream goes on where it was") {
  world w;
  auto running = w.open_granted();
  auto waiting = w.open();
  w.tell(chunk_for(*running, 2, 2));
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
  REQUIRE(w.log->reserves.size() == 3); // the one without a ticket asks again
  CHECK(w.log->reserves[2].request == waiting->number());
  w.tell(granted{running->number(), ticket_id{77}, epoch_id{1}, key});
  CHECK_FALSE(running->next()); // its client knows
  w.tell(chunk_for(*running, 5, 3, finish::stop));
  CHECK(std::get<chunk>(*running->next()).index == 5);
  CHECK(w.facts->requests_open() == 1);
}

TEST_CASE("a request that its client has asked for before is not submitted again") {
  world w;
  auto out = w.new_stream();
  auto g = named_request();
  w.tell(open_generate{out, g, true});
  REQUIRE(w.log->reserves.size() == 1);
  const auto asked = w.log->reserves[0];
  CHECK(asked.request_id == "order 66");
  CHECK(asked.is_resumable);
  CHECK(asked.request_digest == digest_of(g, true));
  CHECK(asked.request_digest != digest_of(g, false));
  g.input = std::string("hallo");
  CHECK(asked.request_digest != digest_of(g, true));
  w.tell(granted{out->number(), ticket_id{77}, {}, 4711, true});
  CHECK(w.log->submits.empty());
  CHECK(std::get<granted>(*out->next()).resume_key == 4711);
  w.tell(chunk_for(*out, 2, 2));
  CHECK(std::get<chunk>(*out->next()).index == 2);
  w.lose_head();
  REQUIRE(w.log->resumes.size() == 1); // with the key that the ticket has
  CHECK(w.log->resumes[0].resume_key == 4711);
  CHECK(w.log->resumes[0].from == std::vector<resume_point>{{2, false}});
}

TEST_CASE("a ticket that a gateway before it left without a request keeps the key it was given") {
  world w;
  auto out = w.new_stream();
  w.tell(open_generate{out, named_request(), true});
  w.tell(granted{out->number(), ticket_id{77}, {}, 4711, false});
  CHECK(std::get<granted>(*out->next()).resume_key == 4711);
  REQUIRE(w.log->submits.size() == 1);
  auto said = chunk_for(*out, 2, 2);
  said.ids = {5, 6};
  w.tell(said);
  w.lose_head();
  REQUIRE(w.log->resumes.size() == 1);
  CHECK(w.log->resumes[0].resume_key == 4711);
  w.tell(rejected{out->number(), ticket_id{77}, fail(errc::ticket_not_found, "a new head"), {}, 0});
  CHECK(w.log->reserves.back().ticket == ticket_id{77});
  CHECK(w.log->reserves.back().resume_key == 4711); // as its client knows it
}

TEST_CASE("what came from another gateway can be told to another head") {
  world w;
  auto out = w.new_stream();
  w.tell(open_resume{out, "m", ticket_id{77}, 5, {{2, false}, {4, false}}});
  reserve r{out->number(), process_id{1}, "m", 2, 50, 3, 5, true, ticket_id{77}};
  submit s;
  s.request = out->number();
  s.ticket = ticket_id{77};
  s.input = ids_prompt{1, 2, 3};
  s.choices = 2;
  s.delivered = {{{10, 11}, false}, {{20, 21, 22, 23}, false}};
  bool can_be_told = false;
  bool is_overtaken = false;
  SUBCASE("as it was asked for, with the tokens before it and since") {
    w.tell(r);
    w.tell(s);
    can_be_told = true;
  }
  SUBCASE("also if the grant overtakes the request, which waits for credit") {
    w.tell(r);
    can_be_told = is_overtaken = true;
  }
  SUBCASE("not if what its client has is not known") {
    s.delivered[1] = {{}, true}; // its end is on its way
    w.tell(r);
    w.tell(s);
  }
  SUBCASE("not if the head has said nothing") {}
  w.tell(granted{out->number(), ticket_id{77}, {}, 5});
  CHECK(std::holds_alternative<granted>(*out->next())); // its client hears of it in any case
  if (is_overtaken)
    w.tell(s);
  auto c = chunk_for(*out, 3, 1);
  c.ids = {12};
  w.tell(c);
  CHECK(std::get<chunk>(*out->next()).index == 3);
  w.lose_head_and_log(*out);
  REQUIRE(w.log->reserves.size() == (can_be_told ? 1 : 0));
  if (!can_be_told) {
    CHECK(std::get<rejected>(*out->next()).reason.code == errc::ticket_not_found);
    return;
  }
  CHECK(w.log->reserves[0].ticket == ticket_id{77});
  CHECK(w.log->reserves[0].priority == 3);
  w.tell(granted{out->number(), ticket_id{77}, epoch_id{2}, 5});
  REQUIRE(w.log->submits.size() == 1);
  const auto& again = w.log->submits[0];
  CHECK(std::get<ids_prompt>(again.input) == ids_prompt{1, 2, 3});
  REQUIRE(again.delivered.size() == 2);
  CHECK(again.delivered[0].ids == ids_prompt{10, 11, 12});
  CHECK(again.delivered[1].ids == ids_prompt{20, 21, 22, 23});
}

TEST_CASE("a new link to the head means that the old one fell, seen or not") {
  world w;
  auto running = w.open_granted();
  hello head;
  head.process = process_id{9};
  w.tell(actors::peer_up{head}); // a shard's
  w.head_is_back();
  CHECK(w.log->resumes.empty());
  head.process = process_id{2};
  w.tell(actors::peer_up{head});
  w.head_is_back();
  REQUIRE(w.log->resumes.size() == 1);
  CHECK(w.log->resumes[0].request == running->number());
}

TEST_CASE("a head that lost its log is told of the ticket, with the tokens that were delivered") {
  world w;
  auto out = w.open_granted(2);
  auto c = chunk_for(*out, 2, 2);
  c.ids = {41, 42};
  w.tell(c);
  CHECK(out->next());
  for (int life = 1; life <= 2; ++life) {
    CAPTURE(life);
    w.lose_head_and_log(*out);
    CHECK_FALSE(out->next());
    const auto& again = w.log->reserves.back();
    CHECK(again.ticket == ticket_id{77});
    CHECK(again.resume_key == w.log->reserves.front().resume_key);
    w.tell(granted{out->number(), ticket_id{77}, epoch_id{1}, again.resume_key});
    CHECK_FALSE(out->next());
    REQUIRE(w.log->submits.size() == static_cast<std::size_t>(1 + life));
    CHECK(w.log->submits.back().input == prompt("hello"));
    CHECK(w.log->submits.back().delivered ==
          std::vector<delivered_choice>{{{41, 42}, false}, {{}, false}});
  }
  w.tell(chunk_for(*out, 3, 1, finish::stop));
  CHECK(std::get<chunk>(*out->next()).index == 3);
}

TEST_CASE("a client that left while its ticket was told anew is gone when the head is lost again") {
  world w;
  auto out = w.open_granted();
  w.lose_head_and_log(*out);
  w.tell(close_request{out->number()});
  w.tell(actors::peer_down{process_id{2}, epoch_id{1}, "killed again"});
  CHECK(w.facts->requests_open() == 0);
}

TEST_CASE("a ticket of before the loss that is refused late is not the request that asked again") {
  world w;
  auto out = w.open_granted();
  rejected no;
  no.request = out->number();
  no.ticket = ticket_id{76};
  no.reason = fail(errc::queue_timeout, "nothing was submitted");
  w.tell(no);
  CHECK_FALSE(out->next());
  CHECK(w.facts->requests_open() == 1);
}

TEST_CASE("a client that comes back from elsewhere gets what it has not had") {
  world w;
  auto out = w.new_stream();
  w.tell(open_resume{out, "m", ticket_id{77}, 5, {{3, false}, {9, true}}});
  REQUIRE(w.log->resumes.size() == 1);
  CHECK(w.log->resumes[0].resume_key == 5);
  CHECK(w.log->resumes[0].from == std::vector<resume_point>{{3, false}, {9, true}});
  w.tell(granted{out->number(), ticket_id{77}, {}, 5});
  CHECK(std::get<granted>(*out->next()).resume_key == 5);
  w.tell(chunk_for(*out, 4, 1));
  CHECK(std::get<chunk>(*out->next()).index == 4);
  // The request itself is not known here: a head without its log cannot be told of it.
  w.lose_head();
  REQUIRE(w.log->resumes.size() == 2);
  CHECK(w.log->resumes[1].from == std::vector<resume_point>{{4, false}, {9, true}});
  rejected no;
  no.request = out->number();
  no.ticket = ticket_id{77};
  no.reason = fail(errc::ticket_not_found, "a new life");
  w.tell(no);
  CHECK(std::get<rejected>(*out->next()).reason.code == errc::ticket_not_found);
  CHECK(w.facts->requests_open() == 0);
}
