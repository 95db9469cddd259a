// A stream moves to another pipeline of its model when its own has been away for long.
#include "gateway/base/outage.hpp"
#include "tests/unit/gateway/dispatch/request_router_world.hpp"

using namespace baton;
using namespace baton::gateway;
using namespace baton::gateway::at_pipeline_client;
using namespace std::chrono_literals;

namespace {

struct move_world : request_router_world {
  std::uint32_t home = 0, other = 1; // of the stream opened last

  explicit move_world(const std::vector<std::string>& models = {"m", "m"})
      : request_router_world(models) {}

  static ticket_id ticket_at(std::uint32_t pipeline) { return ticket_id{640 + pipeline}; }

  // With two tokens delivered.
  std::shared_ptr<stream> begin(std::string request_id = {}, std::uint32_t choices = 1,
                                std::chrono::milliseconds deadline = 0ms,
                                std::shared_ptr<quota_lease> lease = nullptr) {
    auto out = new_stream();
    generate g;
    g.model = "m";
    g.input = std::string("hello");
    g.request_id = std::move(request_id);
    g.terms.choices = choices;
    g.terms.deadline = deadline;
    ask(open_generate{out, g, true, true, std::move(lease)});
    home = *where(*out);
    other = 1 - home;
    grant(home, *out, ticket_at(home));
    CHECK(std::holds_alternative<granted>(*out->next()));
    send_chunk(home, *out, 2, {11, 12});
    CHECK(std::get<chunk>(*out->next()).index == 2);
    return out;
  }
  void send_chunk(std::uint32_t pipeline, const stream& s, std::uint32_t index, ids_prompt ids,
                  finish how = finish::none) {
    chunk c;
    c.request = s.number();
    c.ticket = ticket_at(pipeline);
    c.index = index;
    c.count = static_cast<std::uint32_t>(ids.size());
    c.ids = std::move(ids);
    c.prompt_tokens = 10;
    c.finish = how;
    deliver(pipeline, chunks{{c}, {}});
  }
  void report_phase(std::uint32_t pipeline, phase now) {
    model_card card;
    card.name = "m";
    card.sequences_max = 8;
    card.max_model_len = 100;
    card.phase = now;
    deliver(pipeline, card);
  }
  void pass(std::chrono::milliseconds span) {
    time.advance_time(span);
    for (std::uint32_t i = 0; i < all.pipeline_clients.size(); ++i) {
      deliver(i, actors::tick{});
    }
  }
  const std::vector<cancel>& cancels(std::uint32_t pipeline) const {
    return logs[pipeline]->cancels;
  }
  bool has_metric(const std::string& line) const {
    return metrics().find(line) != std::string::npos;
  }
};

bool has_failed(stream& s) {
  const auto e = s.next();
  return e && std::holds_alternative<failed>(*e);
}

} // namespace

TEST_CASE(
    "a stream moves when its pipeline has been away for long, and continues after its position") {
  move_world w;
  const auto out = w.begin();
  bool is_head_there = true;
  SUBCASE("its shards are lost") {
    w.report_phase(w.home, phase::recovering);
  }
  SUBCASE("its head is lost") {
    w.lose(w.home);
    is_head_there = false;
  }
  SUBCASE("its head is back without its shards") {
    w.lose(w.home);
    w.report_phase(w.home, phase::loading);
  }
  w.pass(move_patience - 1ms);
  CHECK(w.reserves(w.other) == 0);
  w.pass(1ms);
  REQUIRE(w.reserves(w.other) == 1);
  const auto& asked = w.logs[w.other]->reserves[0];
  CHECK(asked.was_admitted);
  CHECK_FALSE(asked.ticket);
  CHECK(asked.resume_key == w.logs[w.home]->reserves[0].resume_key);
  CHECK(w.cancels(w.home).empty());    // it may have to go back
  w.send_chunk(w.home, *out, 3, {13}); // too late
  CHECK_FALSE(out->next());
  w.grant(w.other, *out, w.ticket_at(w.other));
  const auto outcome = std::get<granted>(*out->next());
  CHECK(outcome.ticket == w.ticket_at(w.other));
  CHECK(outcome.resume_key == asked.resume_key);
  REQUIRE(w.logs[w.other]->submits.size() == 1);
  const auto& again = w.logs[w.other]->submits[0];
  CHECK(again.ticket == w.ticket_at(w.other));
  CHECK(again.input == prompt("hello"));
  CHECK(again.delivered == std::vector<delivered_choice>{{{11, 12}, false}});
  if (!is_head_there) {
    CHECK(w.cancels(w.home).empty()); // it would not receive it
    w.report_ready(w.home);
  }
  REQUIRE(w.cancels(w.home).size() == 1);
  CHECK(w.cancels(w.home)[0].ticket == w.ticket_at(w.home));
  CHECK(w.cancels(w.other).empty());
  w.send_chunk(w.other, *out, 3, {13});
  w.send_chunk(w.other, *out, 4, {14}, finish::stop);
  CHECK(std::get<chunk>(*out->next()).index == 3);
  CHECK(std::get<chunk>(*out->next()).finish == finish::stop);
  CHECK(w.facts->requests_open() == 0);
  CHECK(w.facts->inflight().at(0) + w.facts->inflight().at(1) == 0);
  const auto engine = std::to_string(w.home);
  CHECK(w.has_metric("baton_streams_moved_total{engine=\"" + engine + "\",model_name=\"m\"} 1"));
  CHECK(w.has_metric("reason=\"moved\"} 1"));
  CHECK(w.has_metric("baton_time_to_first_token_seconds_count{engine=\"" + engine +
                     "\",model_name=\"m\"} 1"));
}

TEST_CASE("a stream stays") {
  move_world w;
  std::shared_ptr<stream> out;
  SUBCASE("whose pipeline is back in time") {
    out = w.begin();
    w.report_phase(w.home, phase::recovering);
    w.pass(move_patience - 1ms);
    w.report_ready(w.home);
    w.pass(1ms);
    w.report_phase(w.home, phase::recovering); // counts from here
    w.pass(move_patience - 1ms);
  }
  SUBCASE("whose pipeline drains") {
    out = w.begin();
    w.report_phase(w.home, phase::draining);
    w.pass(2 * move_patience);
  }
  SUBCASE("its client has named it: its log is at one pipeline alone") {
    out = w.begin("order 66");
    w.report_phase(w.home, phase::recovering);
    w.pass(2 * move_patience);
  }
  SUBCASE("while no other one is ready; then it moves") {
    out = w.begin();
    w.report_phase(0, phase::recovering);
    w.report_phase(1, phase::recovering);
    w.pass(2 * move_patience);
    CHECK(w.reserves(w.other) == 0);
    w.report_ready(w.other);
    w.pass(1ms);
    CHECK(w.reserves(w.other) == 1);
    return;
  }
  CHECK(w.reserves(w.other) == 0);
  CHECK_FALSE(out->next());
}

TEST_CASE("a stream from another gateway with an unknown request waits") {
  move_world w;
  const auto out = w.new_stream();
  w.ask(open_resume{out, "m", w.ticket_at(0), 5, {{2, false}}});
  w.lose(0);
  w.pass(2 * move_patience);
  CHECK(w.reserves(1) == 0);
}

TEST_CASE("a stream that no other pipeline accepts returns to its ticket, and ends once") {
  enum class how { refused, refused_otherwise, lost };
  for (const bool is_head_lost : {false, true})
    for (const auto no : {how::refused, how::refused_otherwise, how::lost})
      for (const bool comes_back : {false, true}) {
        CAPTURE(is_head_lost);
        CAPTURE(static_cast<int>(no));
        CAPTURE(comes_back);
        move_world w;
        const auto out = w.begin();
        if (is_head_lost) {
          w.lose(w.home);
        } else {
          w.report_phase(w.home, phase::recovering);
        }
        w.pass(move_patience);
        REQUIRE(w.reserves(w.other) == 1);
        if (no == how::lost) {
          w.lose(w.other);
        } else {
          w.refuse(w.other, *out, no == how::refused ? errc::not_ready : errc::internal);
        }
        CHECK_FALSE(out->next());
        CHECK(w.facts->requests_open() == 1);
        auto& resumes = w.logs[w.home]->resumes;
        REQUIRE(resumes.size() == 1);
        CHECK(resumes[0].ticket == w.ticket_at(w.home));
        CHECK(resumes[0].from == std::vector<resume_point>{{2, false}});
        w.pass(1s); // not again at once
        CHECK(w.reserves(w.other) == 1);
        if (comes_back) {
          w.report_ready(w.home);
          CHECK(resumes.size() == (is_head_lost ? 2 : 1));
          w.grant(w.home, *out, w.ticket_at(w.home));
          CHECK_FALSE(out->next()); // its client already knows
          w.send_chunk(w.home, *out, 3, {13}, finish::stop);
          CHECK(std::get<chunk>(*out->next()).index == 3);
          CHECK(w.cancels(w.home).empty());
        } else {
          w.lose(w.other);
          w.pass(w.facts->config().answer_timeout);
          CHECK(has_failed(*out));
        }
        CHECK_FALSE(out->next());
        CHECK(w.facts->requests_open() == 0);
      }
}

TEST_CASE("each other pipeline is tried once, and the one that accepts it keeps it") {
  move_world w({"m", "m", "m"});
  const auto out = w.new_stream();
  generate g;
  g.model = "m";
  g.input = std::string("hello");
  w.ask(open_generate{out, g, true, true});
  const auto home = *w.where(*out);
  w.grant(home, *out, w.ticket_at(home));
  w.report_phase(home, phase::recovering);
  w.pass(move_patience);
  const std::uint32_t a = (home + 1) % 3, b = (home + 2) % 3;
  CHECK(w.reserves(a) + w.reserves(b) == 1);
  const auto first = w.reserves(a) == 1 ? a : b, second = first == a ? b : a;
  w.refuse(first, *out, errc::overloaded);
  CHECK(w.reserves(second) == 1);
  w.grant(second, *out, w.ticket_at(second));
  CHECK(std::get<granted>(*out->next()).ticket == w.ticket_at(home));
  CHECK(std::get<granted>(*out->next()).ticket == w.ticket_at(second));
  CHECK(w.cancels(home).size() == 1);
  // It can move again, and back.
  w.report_ready(home);
  w.report_phase(second, phase::recovering);
  w.report_phase(first, phase::recovering);
  w.pass(move_patience);
  CHECK(w.reserves(home) == 2);
  CHECK(w.logs[home]->reserves[1].was_admitted);
}

TEST_CASE("a stream whose client leaves during the move is not served") {
  move_world w;
  const auto out = w.begin();
  w.report_phase(w.home, phase::recovering);
  w.pass(move_patience);
  out->detach();
  w.ask(close_request{out->number(), cancel_reason::client_gone});
  REQUIRE(w.cancels(w.home).size() == 1);
  CHECK(w.cancels(w.home)[0].ticket == w.ticket_at(w.home));
  w.grant(w.other, *out, w.ticket_at(w.other));
  REQUIRE(w.cancels(w.other).size() == 1);
  CHECK(w.cancels(w.other)[0].ticket == w.ticket_at(w.other));
  CHECK(w.cancels(w.home).size() == 1);
  CHECK(w.facts->requests_open() == 0);
}

TEST_CASE("its quota and its deadline move with it") {
  move_world w;
  const auto account =
      std::make_shared<key_account>("a", key_quotas{}, authenticator::instant::clock::now());
  REQUIRE_FALSE(account->begin(authenticator::instant::clock::now()));
  const auto out = w.begin({}, 1, 60s, std::make_shared<quota_lease>(account));
  CHECK(account->used().tokens == 12);
  w.report_phase(w.home, phase::recovering);
  w.pass(move_patience);
  w.grant(w.other, *out, w.ticket_at(w.other));
  REQUIRE(w.logs[w.other]->submits.size() == 1);
  CHECK(w.logs[w.home]->submits[0].terms.deadline == 60s);
  CHECK(w.logs[w.other]->submits[0].terms.deadline == 60s - move_patience);
  w.send_chunk(w.other, *out, 3, {13});
  CHECK(account->used().tokens == 13); // the prompt is paid for
}

TEST_CASE("finished choices stay finished") {
  move_world w;
  const auto out = w.begin({}, 2);
  w.send_chunk(w.home, *out, 3, {13}, finish::stop);
  CHECK(std::get<chunk>(*out->next()).finish == finish::stop);
  w.report_phase(w.home, phase::recovering);
  w.pass(move_patience);
  w.grant(w.other, *out, w.ticket_at(w.other));
  REQUIRE(w.logs[w.other]->submits.size() == 1);
  CHECK(w.logs[w.other]->submits[0].delivered ==
        std::vector<delivered_choice>{{{11, 12, 13}, true}, {{}, false}});
}
