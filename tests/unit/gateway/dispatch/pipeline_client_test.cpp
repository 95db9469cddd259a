// The gateway actor: requests from their reservation to their end.
#include "gateway/base/request_check.hpp"
#include "tests/unit/gateway/dispatch/pipeline_client_world.hpp"

using namespace baton;
using namespace baton::gateway;
using namespace baton::gateway::at_pipeline_client;

TEST_CASE("a request is reserved, granted, submitted and brought to its end") {
  world w;
  auto out = w.open();
  REQUIRE(w.log->reserves.size() == 1);
  CHECK(w.log->reserves[0].gateway == process_id{1});
  CHECK(w.log->reserves[0].tokens_estimate == 100); // no max_tokens: all of the context
  CHECK(w.log->submits.empty());
  w.tell(granted{out->number(), ticket_id{77}, epoch_id{1}});
  REQUIRE(w.log->submits.size() == 1);
  CHECK(w.log->submits[0].ticket == ticket_id{77});
  CHECK(w.log->submits[0].input == prompt("hello"));
  CHECK(std::get<granted>(*out->next()).ticket == ticket_id{77});
  w.tell(chunk_for(*out, 2, 2));
  w.tell(chunk_for(*out, 3, 1, finish::stop));
  CHECK(std::get<chunk>(*out->next()).index == 2);
  CHECK(std::get<chunk>(*out->next()).finish == finish::stop);
  CHECK(w.facts->requests_open() == 0);
  w.tell(close_request{out->number(), cancel_reason::client_gone});
  CHECK(w.log->cancels.empty());
}

TEST_CASE("a client that leaves while running is cancelled at once, late chunks are dropped") {
  world w;
  auto out = w.open_granted();
  w.tell(close_request{out->number(), cancel_reason::client_gone});
  REQUIRE(w.log->cancels.size() == 1);
  CHECK(w.log->cancels[0].ticket == ticket_id{77});
  CHECK(w.log->cancels[0].why == cancel_reason::client_gone);
  w.tell(chunk_for(*out, 1, 1));
  CHECK_FALSE(out->next());
  CHECK(w.facts->requests_open() == 0);
}

TEST_CASE("a client that leaves between reserve and granted is cancelled when the grant comes") {
  world w;
  auto out = w.open();
  w.tell(close_request{out->number(), cancel_reason::client_gone});
  CHECK(w.log->cancels.empty());
  w.tell(granted{out->number(), ticket_id{77}, epoch_id{1}});
  REQUIRE(w.log->cancels.size() == 1);
  CHECK(w.log->submits.empty());
  CHECK(w.facts->requests_open() == 0);
}

TEST_CASE("a rejected request ends with the scheduler's reason") {
  world w;
  auto out = w.open();
  rejected no;
  no.request = out->number();
  no.reason = fail(errc::overloaded, "full");
  w.tell(no);
  CHECK(std::get<rejected>(*out->next()).reason.code == errc::overloaded);
  CHECK(w.facts->requests_open() == 0);
}

TEST_CASE("a grant that nobody asked for is cancelled") {
  world w;
  w.tell(granted{12345, ticket_id{5}, epoch_id{1}});
  REQUIRE(w.log->cancels.size() == 1);
  CHECK(w.log->cancels[0].ticket == ticket_id{5});
}

TEST_CASE("text that came already is dropped") {
  world w;
  auto out = w.open_granted();
  w.tell(chunk_for(*out, 2, 2));
  w.tell(chunk_for(*out, 2, 2));
  w.tell(chunk_for(*out, 1, 1));
  CHECK(out->next());
  CHECK_FALSE(out->next());
}

TEST_CASE("text after a hole is asked for again, from behind what was delivered") {
  world w;
  auto out = w.open_granted();
  w.tell(chunk_for(*out, 2, 2));
  CHECK(out->next());
  w.tell(chunk_for(*out, 5, 1));
  REQUIRE(w.log->resumes.size() == 1);
  CHECK(w.log->resumes[0].request == out->number());
  CHECK(w.log->resumes[0].ticket == ticket_id{77});
  CHECK(w.log->resumes[0].from == std::vector<resume_point>{{2, false}});
  w.tell(chunk_for(*out, 6, 1)); // was on its way: comes again
  CHECK(w.log->resumes.size() == 1);
  w.tell(granted{out->number(), ticket_id{77}, {}, 0});
  CHECK_FALSE(out->next()); // its client knows
  w.tell(chunk_for(*out, 6, 4, finish::stop));
  CHECK(std::get<chunk>(*out->next()).index == 6);
  CHECK(w.log->cancels.empty());
  CHECK(w.facts->requests_open() == 0);
}

TEST_CASE("a hole that stays ends the stream, one that is passed counts no more") {
  world w;
  auto out = w.open_granted();
  const auto meet_hole = [&](std::uint32_t index) {
    w.tell(chunk_for(*out, index, 1));
    w.tell(granted{out->number(), ticket_id{77}, {}, 0});
  };
  for (std::uint32_t i = 0; i < gaps_max; ++i) {
    meet_hole(5);
  }
  w.tell(chunk_for(*out, 1, 1));
  CHECK(std::get<chunk>(*out->next()).index == 1);
  for (std::uint32_t i = 0; i < gaps_max; ++i) {
    meet_hole(5);
  }
  CHECK_FALSE(out->next());
  CHECK(w.log->resumes.size() == std::size_t{2} * gaps_max);
  w.tell(chunk_for(*out, 5, 1));
  CHECK(std::get<failed>(*out->next()).reason.code == errc::link_down);
  CHECK(w.log->resumes.size() == std::size_t{2} * gaps_max);
  CHECK(w.log->cancels.size() == 1);
  CHECK(w.facts->requests_open() == 0);
}

TEST_CASE("a slow reader is cut and its ticket cancelled, others go on") {
  world w;
  auto slow = w.open_granted();
  auto c = chunk_for(*slow, 1, 1);
  c.text.assign(3000, 'x');
  w.tell(c);
  c.index = 2;
  w.tell(c);
  CHECK(slow->is_cut());
  REQUIRE(w.log->cancels.size() == 1);
  CHECK(w.log->cancels[0].why == cancel_reason::slow_reader);
  CHECK(std::get<failed>(*slow->next()).reason.code == errc::slow_reader);
  CHECK(w.facts->requests_open() == 0);
}

TEST_CASE("a request of several choices is open until the last of them has ended") {
  world w;
  auto out = w.open_granted(2);
  w.tell(chunk_for(*out, 1, 1, finish::stop));
  CHECK(w.facts->requests_open() == 1);
  w.tell(chunk_for(*out, 2, 1, finish::stop)); // that choice is over
  auto other = chunk_for(*out, 1, 1, finish::length);
  other.choice = 1;
  w.tell(other);
  CHECK(w.facts->requests_open() == 0);
  CHECK(out->next());
  CHECK(std::get<chunk>(*out->next()).choice == 1);
  CHECK_FALSE(out->next());
}

TEST_CASE("what the head does not answer in time ends, a later grant is cancelled") {
  world w;
  auto out = w.open();
  auto asked = w.new_stream();
  w.tell(open_tokenize{asked, std::string("x"), true});
  CHECK(w.log->tokenizes.size() == 1);
  w.tell(actors::tick{});
  CHECK_FALSE(out->next());
  w.time.advance_time(std::chrono::seconds(31));
  w.tell(actors::tick{});
  CHECK(std::get<failed>(*out->next()).reason.code == errc::queue_timeout);
  CHECK(std::get<failed>(*asked->next()).reason.code == errc::queue_timeout);
  CHECK(w.facts->requests_open() == 0);
  w.tell(granted{out->number(), ticket_id{77}, epoch_id{1}});
  CHECK(w.log->cancels.size() == 1);
}

TEST_CASE("answers of the tokenizer reach their stream once") {
  world w;
  auto asked = w.new_stream();
  w.tell(open_tokenize{asked, std::string("x"), true});
  tokenized t;
  t.request = asked->number();
  t.ids = {1, 2};
  w.tell(t);
  w.tell(t);
  CHECK(std::get<tokenized>(*asked->next()).ids.size() == 2);
  CHECK_FALSE(asked->next());
  CHECK(w.facts->requests_open() == 0);
}

TEST_CASE("while draining nothing new is admitted") {
  world w;
  w.tell(drain{std::chrono::seconds(1)});
  CHECK(find_model(*w.facts->look(), {}, "m").error().code == errc::draining);
}

TEST_CASE("models are told apart by name, alias and phase") {
  snapshot s;
  model_card card;
  card.name = "m";
  card.phase = phase::ready;
  auto& said = s.pipelines[0].card.emplace(card);
  CHECK(find_model(s, {}, ""));
  CHECK(find_model(s, {"gpt"}, "gpt")->name == "m");
  CHECK(find_model(s, {}, "gpt").error().code == errc::model_not_found);
  CHECK(find_model(s, {}, "gpt").error().param == "model");
  said.phase = phase::loading;
  CHECK(find_model(s, {}, "m").error().code == errc::not_ready);
  said.phase = phase::recovering; // its queue is open: streams go on
  CHECK(find_model(s, {}, "m"));
}

TEST_CASE("no more requests are open than the limit says") {
  gateway_config config;
  config.requests_max = 2;
  gateway_state b(config);
  CHECK(b.enter());
  CHECK(b.enter());
  CHECK_FALSE(b.enter());
  b.leave();
  CHECK(b.enter());
}

TEST_CASE("the guess of a request's tokens is never below what it can take") {
  generate g;
  g.input = std::string(10, 'x');
  g.stop.max_tokens = 5;
  g.max_tokens_given = true;
  CHECK(tokens_estimate(g, 100) == 15);
  CHECK(tokens_estimate(g, 12) == 12);
  g.max_tokens_given = false;
  CHECK(tokens_estimate(g, 100) == 100);
  g.input = chat_prompt{{"user", "abcd", ""}};
  g.max_tokens_given = true;
  CHECK(tokens_estimate(g, 100) == 25);
}
