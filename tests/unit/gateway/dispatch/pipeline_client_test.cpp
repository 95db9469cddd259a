// The gateway actor: requests from their reservation to their end.
#include "gateway/request/request_check.hpp"
#include "tests/unit/gateway/dispatch/pipeline_client_world.hpp"

using namespace baton;
using namespace baton::gateway;
using namespace baton::gateway::at_pipeline_client;

TEST_CASE("a request is reserved, granted, submitted and finished") {
  world w;
  auto out = w.open();
  REQUIRE(w.log->reserves.size() == 1);
  CHECK(w.log->reserves[0].gateway == process_id{1});
  CHECK(w.log->reserves[0].tokens_estimate == 100); // no max_tokens: all of the context
  CHECK(w.log->submits.empty());
  w.deliver(granted{out->number(), ticket_id{77}, epoch_id{1}});
  REQUIRE(w.log->submits.size() == 1);
  CHECK(w.log->submits[0].ticket == ticket_id{77});
  CHECK(w.log->submits[0].input == prompt("hello"));
  CHECK(std::get<granted>(*out->next()).ticket == ticket_id{77});
  w.deliver(chunk_for(*out, 2, 2));
  w.deliver(chunk_for(*out, 3, 1, finish::stop));
  CHECK(std::get<chunk>(*out->next()).index == 2);
  CHECK(std::get<chunk>(*out->next()).finish == finish::stop);
  CHECK(w.facts->requests_open() == 0);
  w.deliver(close_request{out->number(), cancel_reason::client_gone});
  CHECK(w.log->cancels.empty());
}

TEST_CASE("a client that leaves while running is cancelled at once, late chunks are dropped") {
  world w;
  auto out = w.open_granted();
  w.deliver(close_request{out->number(), cancel_reason::client_gone});
  REQUIRE(w.log->cancels.size() == 1);
  CHECK(w.log->cancels[0].ticket == ticket_id{77});
  CHECK(w.log->cancels[0].why == cancel_reason::client_gone);
  w.deliver(chunk_for(*out, 1, 1));
  CHECK_FALSE(out->next());
  CHECK(w.facts->requests_open() == 0);
}

TEST_CASE("a client that leaves between reserve and granted is cancelled when the grant comes") {
  world w;
  auto out = w.open();
  w.deliver(close_request{out->number(), cancel_reason::client_gone});
  CHECK(w.log->cancels.empty());
  w.deliver(granted{out->number(), ticket_id{77}, epoch_id{1}});
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
  w.deliver(no);
  CHECK(std::get<rejected>(*out->next()).reason.code == errc::overloaded);
  CHECK(w.facts->requests_open() == 0);
}

TEST_CASE("an unexpected grant is cancelled") {
  world w;
  w.deliver(granted{12345, ticket_id{5}, epoch_id{1}});
  REQUIRE(w.log->cancels.size() == 1);
  CHECK(w.log->cancels[0].ticket == ticket_id{5});
}

TEST_CASE("duplicate text is dropped") {
  world w;
  auto out = w.open_granted();
  w.deliver(chunk_for(*out, 2, 2));
  w.deliver(chunk_for(*out, 2, 2));
  w.deliver(chunk_for(*out, 1, 1));
  CHECK(out->next());
  CHECK_FALSE(out->next());
}

TEST_CASE("text after a gap is requested again, from the delivered position") {
  world w;
  auto out = w.open_granted();
  w.deliver(chunk_for(*out, 2, 2));
  CHECK(out->next());
  w.deliver(chunk_for(*out, 5, 1));
  REQUIRE(w.log->resumes.size() == 1);
  CHECK(w.log->resumes[0].request == out->number());
  CHECK(w.log->resumes[0].ticket == ticket_id{77});
  CHECK(w.log->resumes[0].from == std::vector<resume_point>{{2, false}});
  w.deliver(chunk_for(*out, 6, 1)); // was in flight: it is sent again
  CHECK(w.log->resumes.size() == 1);
  w.deliver(granted{out->number(), ticket_id{77}, {}, 0});
  CHECK_FALSE(out->next()); // its client already knows
  w.deliver(chunk_for(*out, 6, 4, finish::stop));
  CHECK(std::get<chunk>(*out->next()).index == 6);
  CHECK(w.log->cancels.empty());
  CHECK(w.facts->requests_open() == 0);
}

TEST_CASE("a persistent gap ends the stream, one that is closed does not count") {
  world w;
  auto out = w.open_granted();
  const auto meet_hole = [&](std::uint32_t index) {
    w.deliver(chunk_for(*out, index, 1));
    w.deliver(granted{out->number(), ticket_id{77}, {}, 0});
  };
  for (std::uint32_t i = 0; i < gaps_max; ++i) {
    meet_hole(5);
  }
  w.deliver(chunk_for(*out, 1, 1));
  CHECK(std::get<chunk>(*out->next()).index == 1);
  for (std::uint32_t i = 0; i < gaps_max; ++i) {
    meet_hole(5);
  }
  CHECK_FALSE(out->next());
  CHECK(w.log->resumes.size() == std::size_t{2} * gaps_max);
  w.deliver(chunk_for(*out, 5, 1));
  CHECK(std::get<failed>(*out->next()).reason.code == errc::link_down);
  CHECK(w.log->resumes.size() == std::size_t{2} * gaps_max);
  CHECK(w.log->cancels.size() == 1);
  CHECK(w.facts->requests_open() == 0);
}

TEST_CASE("a slow reader is disconnected and its ticket cancelled, others continue") {
  world w;
  auto slow = w.open_granted();
  auto c = chunk_for(*slow, 1, 1);
  c.text.assign(3000, 'x');
  w.deliver(c);
  c.index = 2;
  w.deliver(c);
  CHECK(slow->is_cut());
  REQUIRE(w.log->cancels.size() == 1);
  CHECK(w.log->cancels[0].why == cancel_reason::slow_reader);
  CHECK(std::get<failed>(*slow->next()).reason.code == errc::slow_reader);
  CHECK(w.facts->requests_open() == 0);
}

TEST_CASE("a request of several choices is open until the last of them has ended") {
  world w;
  auto out = w.open_granted(2);
  w.deliver(chunk_for(*out, 1, 1, finish::stop));
  CHECK(w.facts->requests_open() == 1);
  w.deliver(chunk_for(*out, 2, 1, finish::stop)); // that choice has ended
  auto other = chunk_for(*out, 1, 1, finish::length);
  other.choice = 1;
  w.deliver(other);
  CHECK(w.facts->requests_open() == 0);
  CHECK(out->next());
  CHECK(std::get<chunk>(*out->next()).choice == 1);
  CHECK_FALSE(out->next());
}

TEST_CASE("a request that the head does not answer in time ends, and a later grant is cancelled") {
  world w;
  auto out = w.open();
  auto asked = w.new_stream();
  w.deliver(open_tokenize{asked, std::string("x"), true});
  CHECK(w.log->tokenizes.size() == 1);
  w.deliver(actors::tick{});
  CHECK_FALSE(out->next());
  w.time.advance_time(std::chrono::seconds(31));
  w.deliver(actors::tick{});
  CHECK(std::get<failed>(*out->next()).reason.code == errc::queue_timeout);
  CHECK(std::get<failed>(*asked->next()).reason.code == errc::queue_timeout);
  CHECK(w.facts->requests_open() == 0);
  w.deliver(granted{out->number(), ticket_id{77}, epoch_id{1}});
  CHECK(w.log->cancels.size() == 1);
}

TEST_CASE("answers of the tokenizer reach their stream once") {
  world w;
  auto asked = w.new_stream();
  w.deliver(open_tokenize{asked, std::string("x"), true});
  tokenized t;
  t.request = asked->number();
  t.ids = {1, 2};
  w.deliver(t);
  w.deliver(t);
  CHECK(std::get<tokenized>(*asked->next()).ids.size() == 2);
  CHECK_FALSE(asked->next());
  CHECK(w.facts->requests_open() == 0);
}

TEST_CASE("a draining gateway admits no new request") {
  world w;
  w.deliver(drain{std::chrono::seconds(1)});
  CHECK(find_model(*w.facts->look(), {}, "m").error().code == errc::draining);
}

TEST_CASE("models are distinguished by name, alias and phase") {
  snapshot s;
  model_card card;
  card.name = "m";
  card.phase = phase::ready;
  auto& given = s.pipelines[0].card.emplace(card);
  CHECK(find_model(s, {}, ""));
  CHECK(find_model(s, {"gpt"}, "gpt")->name == "m");
  CHECK(find_model(s, {}, "gpt").error().code == errc::model_not_found);
  CHECK(find_model(s, {}, "gpt").error().param == "model");
  given.phase = phase::loading;
  CHECK(find_model(s, {}, "m").error().code == errc::not_ready);
  given.phase = phase::recovering; // its queue is open: streams continue
  CHECK(find_model(s, {}, "m"));
}

TEST_CASE("open requests are limited") {
  gateway_config config;
  config.requests_max = 2;
  gateway_state b(config);
  CHECK(b.enter());
  CHECK(b.enter());
  CHECK_FALSE(b.enter());
  b.leave();
  CHECK(b.enter());
}

TEST_CASE("the token estimate of a request is never below its maximum") {
  generate g;
  g.input = std::string(10, 'x');
  g.terms.stop.max_tokens = 5;
  g.terms.max_tokens_given = true;
  CHECK(tokens_estimate(g, 100) == 15);
  CHECK(tokens_estimate(g, 12) == 12);
  g.terms.max_tokens_given = false;
  CHECK(tokens_estimate(g, 100) == 100);
  g.input = chat_prompt{{"user", "abcd", ""}};
  g.terms.max_tokens_given = true;
  CHECK(tokens_estimate(g, 100) == 25);
}
