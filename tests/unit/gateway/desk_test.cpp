// The gateway actor under CAF's testing scheduler: what it says to scheduler and tokenizer, what it
// brings to streams. No threads, no sockets; time is moved by hand.
#include "gateway/desk.hpp"
#include "gateway/desk_state.hpp"
#include "schema/digest.hpp"

#include <caf/scheduler/test_coordinator.hpp>
#include <doctest/doctest.h>

using namespace baton;
using namespace baton::gateway;

namespace {

struct heard {
  std::vector<reserve> reserves;
  std::vector<cancel> cancels;
  std::vector<resume> resumes;
  std::vector<submit> submits;
  std::vector<tokenize> tokenizes;
};

struct testing_config : caf::actor_system_config {
  testing_config() { set("scheduler.policy", caf::atom("testing")); }
};

struct world {
  testing_config options;
  caf::actor_system system{options};
  caf::scheduler::test_coordinator& time =
      dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  std::shared_ptr<heard> log = std::make_shared<heard>();
  std::shared_ptr<board> facts;
  actors::scheduler_actor scheduler;
  actors::tokenizer_actor tokenizer;
  desk_actor to;

  world() {
    gateway_config config;
    config.self = node_id{1};
    config.head = node_id{2};
    config.stream_buffer_max_bytes = 4096;
    facts = std::make_shared<board>(config);
    // CAF 0.17 asserts on a spawn without arguments: the log is one.
    scheduler = system.spawn(
        [](std::shared_ptr<heard> l) -> actors::scheduler_actor::behavior_type {
          return {[l](const reserve& m) { l->reserves.push_back(m); },
                  [](const admit&) {},
                  [l](const cancel& m) { l->cancels.push_back(m); },
                  [l](const resume& m) { l->resumes.push_back(m); },
                  [](const sampled&) {},
                  [](const stage_ready&) {},
                  [](const epoch_opened&) {},
                  [](const actors::peer_up&) {},
                  [](const actors::peer_down&) {},
                  [](const drain&) {},
                  [](const actors::tick&) {}};
        },
        log);
    tokenizer = system.spawn(
        [](std::shared_ptr<heard> l) -> actors::tokenizer_actor::behavior_type {
          return {[l](const submit& m) { l->submits.push_back(m); },
                  [l](const tokenize& m) { l->tokenizes.push_back(m); }, [](const detokenize&) {}};
        },
        log);
    to = spawn_desk(system, desk_config{scheduler, tokenizer, facts});
    model_card card;
    card.name = "m";
    card.context_max = 100;
    card.phase = phase::ready;
    tell(card);
  }
  ~world() {
    for (const auto& a :
         {caf::actor_cast<caf::actor>(scheduler), caf::actor_cast<caf::actor>(tokenizer),
          caf::actor_cast<caf::actor>(to)}) {
      caf::anon_send_exit(a, caf::exit_reason::user_shutdown);
    }
    time.run();
  }
  void head_is_back(const char* model = "m") {
    model_card again;
    again.name = model;
    again.phase = phase::ready;
    tell(again);
  }
  template <class T>
  void tell(T m) {
    if constexpr (std::is_same_v<T, chunk>)
      caf::anon_send(to, chunks{{std::move(m)}, {}});
    else
      caf::anon_send(to, std::move(m));
    time.run();
  }
  std::shared_ptr<stream> open(std::uint32_t choices = 1) {
    auto out = std::make_shared<stream>(facts->next_number(), 4096, nullptr);
    generate g;
    g.model = "m";
    g.input = std::string("hello");
    g.choices = choices;
    REQUIRE(facts->enter());
    tell(open_generate{out, g, true});
    return out;
  }
  std::shared_ptr<stream> open_granted(std::uint32_t choices = 1) {
    auto out = open(choices);
    tell(granted{out->number(), ticket_id{77}, epoch_id{1}});
    CHECK(std::holds_alternative<granted>(*out->next()));
    return out;
  }
};

chunk chunk_for(const stream& s, std::uint32_t index, std::uint32_t count,
                finish how = finish::none) {
  chunk c;
  c.request = s.number();
  c.ticket = ticket_id{77};
  c.index = index;
  c.count = count;
  c.text = "t" + std::to_string(index);
  c.finish = how;
  return c;
}

} // namespace

TEST_CASE("a request is reserved, granted, submitted and brought to its end") {
  world w;
  auto out = w.open();
  REQUIRE(w.log->reserves.size() == 1);
  CHECK(w.log->reserves[0].gateway == node_id{1});
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

TEST_CASE("while the head is lost streams wait; a shard's loss changes nothing") {
  world w;
  auto running = w.open_granted();
  auto waiting = w.open();
  auto asked = std::make_shared<stream>(w.facts->next_number(), 4096, nullptr);
  REQUIRE(w.facts->enter());
  w.tell(open_tokenize{asked, std::string("x"), true});
  w.tell(actors::peer_down{node_id{9}, epoch_id{1}, "a shard"});
  CHECK_FALSE(running->next());
  w.tell(actors::peer_down{node_id{2}, epoch_id{1}, "killed"});
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
  CHECK(w.facts->look()->cards.size() == 1);
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
  w.tell(actors::peer_down{node_id{2}, epoch_id{1}, "the link fell"});
  w.head_is_back();
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
  auto out = std::make_shared<stream>(w.facts->next_number(), 4096, nullptr);
  generate g;
  g.model = "m";
  g.input = std::string("hello");
  g.request_id = "order 66";
  REQUIRE(w.facts->enter());
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
  w.tell(actors::peer_down{node_id{2}, epoch_id{1}, "the link fell"});
  w.head_is_back();
  REQUIRE(w.log->resumes.size() == 1); // with the key that the ticket has
  CHECK(w.log->resumes[0].resume_key == 4711);
  CHECK(w.log->resumes[0].from == std::vector<resume_point>{{2, false}});
}

TEST_CASE("a new link to the head means that the old one fell, seen or not") {
  world w;
  auto running = w.open_granted();
  hello head;
  head.node = node_id{9};
  w.tell(actors::peer_up{head}); // a shard's
  w.head_is_back();
  CHECK(w.log->resumes.empty());
  head.node = node_id{2};
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
    w.tell(actors::peer_down{node_id{2}, epoch_id{1}, "killed"});
    w.head_is_back();
    rejected no;
    no.request = out->number();
    no.ticket = ticket_id{77};
    no.reason = fail(errc::ticket_not_found, "a new life");
    w.tell(no);
    CHECK_FALSE(out->next());
    const auto& again = w.log->reserves.back();
    CHECK(again.ticket == ticket_id{77});
    CHECK(again.resume_key == w.log->reserves.front().resume_key);
    w.tell(granted{out->number(), ticket_id{77}, epoch_id{1}});
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
  w.tell(actors::peer_down{node_id{2}, epoch_id{1}, "killed"});
  w.head_is_back();
  rejected no;
  no.request = out->number();
  no.ticket = ticket_id{77};
  no.reason = fail(errc::ticket_not_found, "a new life");
  w.tell(no);
  w.tell(close_request{out->number()});
  w.tell(actors::peer_down{node_id{2}, epoch_id{1}, "killed again"});
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
  auto out = std::make_shared<stream>(w.facts->next_number(), 4096, nullptr);
  REQUIRE(w.facts->enter());
  w.tell(open_resume{out, "m", ticket_id{77}, 5, {{3, false}, {9, true}}});
  REQUIRE(w.log->resumes.size() == 1);
  CHECK(w.log->resumes[0].resume_key == 5);
  CHECK(w.log->resumes[0].from == std::vector<resume_point>{{3, false}, {9, true}});
  w.tell(granted{out->number(), ticket_id{77}, {}, 5});
  CHECK(std::get<granted>(*out->next()).resume_key == 5);
  w.tell(chunk_for(*out, 4, 1));
  CHECK(std::get<chunk>(*out->next()).index == 4);
  // The request itself is not known here: a head without its log cannot be told of it.
  w.tell(actors::peer_down{node_id{2}, epoch_id{1}, "killed"});
  w.head_is_back();
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

TEST_CASE("what the head does not answer in time ends, a later grant is cancelled") {
  world w;
  auto out = w.open();
  auto asked = std::make_shared<stream>(w.facts->next_number(), 4096, nullptr);
  REQUIRE(w.facts->enter());
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
  auto asked = std::make_shared<stream>(w.facts->next_number(), 4096, nullptr);
  REQUIRE(w.facts->enter());
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
  s.cards = {card};
  CHECK(find_model(s, {}, ""));
  CHECK(find_model(s, {"gpt"}, "gpt")->name == "m");
  CHECK(find_model(s, {}, "gpt").error().code == errc::model_not_found);
  CHECK(find_model(s, {}, "gpt").error().param == "model");
  s.cards[0].phase = phase::loading;
  CHECK(find_model(s, {}, "m").error().code == errc::not_ready);
  s.cards[0].phase = phase::recovering; // its queue is open: streams go on
  CHECK(find_model(s, {}, "m"));
}

TEST_CASE("no more requests are open than the limit says") {
  gateway_config config;
  config.requests_max = 2;
  board b(config);
  CHECK(b.enter());
  CHECK(b.enter());
  CHECK_FALSE(b.enter());
  b.leave();
  CHECK(b.enter());
}

TEST_CASE("the guess of a request's tokens is never below what it can take") {
  generate g;
  g.input = std::string(10, 'x');
  g.stop.tokens_max = 5;
  g.tokens_max_given = true;
  CHECK(tokens_estimate(g, 100) == 15);
  CHECK(tokens_estimate(g, 12) == 12);
  g.tokens_max_given = false;
  CHECK(tokens_estimate(g, 100) == 100);
  g.input = chat_prompt{{"user", "abcd", ""}};
  g.tokens_max_given = true;
  CHECK(tokens_estimate(g, 100) == 25);
}
