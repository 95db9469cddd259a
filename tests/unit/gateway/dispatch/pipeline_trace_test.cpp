// The trace of a request from pipeline client and request router: one server span each, however it
// ends.
#include "gateway/base/outage.hpp"
#include "tests/unit/gateway/dispatch/request_router_world.hpp"

using namespace baton;
using namespace baton::gateway;
using namespace baton::gateway::at_pipeline_client;
using namespace std::chrono_literals;

namespace {

// Opens requests with a trace, and reads the spans handed over for export.
template <class World>
struct traced : World {
  using World::World;
  std::shared_ptr<tracer> traces = std::make_shared<tracer>(tracer_settings{});

  trace_handle begin(std::uint32_t choices = 1) {
    auto trace = traces->begin(std::nullopt, "http", this->time.clock().now());
    generate g;
    g.input = chat_prompt{{"user", "hello", ""}};
    g.model = "m";
    trace->data.asks_for(g);
    trace->data.opened("m", choices);
    return trace;
  }
  // The server spans that have ended since the last call.
  std::vector<span> ended() {
    std::vector<span> servers;
    for (const auto& t : traces->take(SIZE_MAX, {}, false)) {
      servers.push_back(t.spans().front());
    }
    return servers;
  }
  span only_one() {
    const auto servers = ended();
    REQUIRE(servers.size() == 1);
    return servers[0];
  }
};

struct client_with_traces : traced<world> {
  client_with_traces() : traced<world>("http://127.0.0.1:4318") {}

  std::shared_ptr<stream> open(std::uint32_t choices = 1) {
    auto out = new_stream();
    generate g;
    g.model = "m";
    g.input = std::string("hello");
    g.terms.choices = choices;
    deliver(open_generate{out, g, true, true, nullptr, nullptr, begin(choices)});
    return out;
  }
  std::shared_ptr<stream> open_running(std::uint32_t choices = 1) {
    auto out = open(choices);
    deliver(granted{out->number(), ticket_id{77}, epoch_id{1}});
    return out;
  }
  void report_phase(phase now, std::string reason = {}) {
    model_card card;
    card.name = "m";
    card.max_model_len = 100;
    card.phase = now;
    card.reason = std::move(reason);
    deliver(card);
  }
};

std::vector<std::string> span_events(const span& s) {
  std::vector<std::string> all;
  for (const auto& e : s.events) {
    all.push_back(
        std::string(e.name) +
        (e.attributes.empty() ? "" : ": " + std::get<std::string>(e.attributes[0].value)));
  }
  return all;
}

using texts = std::vector<std::string>;

} // namespace

TEST_CASE("a request that ends well is traced once, with its tokens") {
  client_with_traces w;
  auto out = w.open_running();
  w.time.advance_time(10ms);
  w.deliver(chunk_for(*out, 2, 2));
  CHECK(w.ended().empty());
  w.time.advance_time(20ms);
  w.deliver(chunk_for(*out, 3, 1, finish::stop));
  const auto traces = w.traces->take(SIZE_MAX, {}, false);
  REQUIRE(traces.size() == 1);
  const auto spans = traces[0].spans();
  REQUIRE(spans.size() == 4);
  CHECK(spans[0].failure.empty());
  CHECK(spans[3].end_unix_nanos - spans[3].begin_unix_nanos == 20'000'000);
  w.deliver(close_request{out->number(), cancel_reason::client_gone});
  CHECK(w.ended().empty());
}

TEST_CASE("every end of a request has its name") {
  client_with_traces w;
  std::string expected;
  SUBCASE("refused by the head") {
    auto out = w.open();
    rejected no;
    no.request = out->number();
    no.reason = fail(errc::overloaded, "full");
    w.deliver(no);
    expected = "overloaded";
  }
  SUBCASE("its client leaves before the grant") {
    auto out = w.open();
    w.deliver(close_request{out->number(), cancel_reason::client_gone});
    expected = "cancelled";
  }
  SUBCASE("its client leaves") {
    auto out = w.open_running();
    w.deliver(chunk_for(*out, 1, 1));
    w.deliver(close_request{out->number(), cancel_reason::client_asked});
    expected = "cancelled";
  }
  SUBCASE("it fails") {
    auto out = w.open_running();
    auto c = chunk_for(*out, 0, 0, finish::failed);
    c.failure = fail(errc::quarantined, "poison");
    w.deliver(c);
    expected = "quarantined";
  }
  SUBCASE("its reader is slow") {
    auto out = w.open_running();
    auto c = chunk_for(*out, 1, 1);
    c.text.assign(3000, 'x');
    w.deliver(c);
    c.index = 2;
    c.finish = finish::stop; // it is not informed of that
    w.deliver(c);
    expected = "slow_reader";
  }
  SUBCASE("the head does not answer in time") {
    auto out = w.open();
    w.time.advance_time(31s);
    w.deliver(actors::tick{});
    expected = "queue_timeout";
  }
  SUBCASE("a gap persists") {
    auto out = w.open_running();
    for (std::uint32_t i = 0; i <= gaps_max; ++i) {
      w.deliver(chunk_for(*out, 5, 1));
      w.deliver(granted{out->number(), ticket_id{77}, {}, 0});
    }
    expected = "link_down";
  }
  CHECK(w.only_one().failure == expected);
}

TEST_CASE("a client that leaves before the grant ends its span then, not at the grant") {
  client_with_traces w;
  auto out = w.open();
  w.deliver(close_request{out->number(), cancel_reason::client_lost});
  CHECK(span_events(w.only_one()) ==
        texts{"client_left: the connection was lost: the client may resume"});
  w.deliver(granted{out->number(), ticket_id{77}, epoch_id{1}});
  CHECK(w.ended().empty());
}

TEST_CASE("requests open at the gateway's end are marked as cut off, and traced") {
  std::shared_ptr<tracer> traces;
  {
    client_with_traces w;
    traces = w.traces;
    w.open_running();
    w.open();
  }
  const auto all = traces->take(SIZE_MAX, {}, false);
  REQUIRE(all.size() == 2);
  CHECK(all[0].spans()[0].failure == "cancelled");
}

TEST_CASE("questions are traced, also those whose head is lost") {
  client_with_traces w;
  const auto ask = [&w] {
    auto trace = w.traces->begin(std::nullopt, "http", w.time.clock().now());
    trace->data.asks = request_trace::operation::tokenize;
    trace->data.opened("m", 0);
    auto out = w.new_stream();
    w.deliver(open_tokenize{out, std::string("x"), true, nullptr, "m", std::move(trace)});
    return out;
  };
  auto out = ask();
  tokenized t;
  t.request = out->number();
  w.deliver(t);
  CHECK(w.only_one().failure.empty());
  ask();
  w.lose_head();
  CHECK(w.only_one().failure == "pipeline_lost");
}

TEST_CASE("a loss that is recovered is an event of the same span") {
  client_with_traces w;
  auto out = w.open_running();
  w.deliver(chunk_for(*out, 2, 2));
  texts expected;
  SUBCASE("the link to the head") {
    w.lose_head();
    w.deliver(granted{out->number(), ticket_id{77}, epoch_id{1}});
    expected = {"head_lost: killed", "resumed: link"};
  }
  SUBCASE("the head with its log") {
    out = w.open_running();
    auto first = chunk_for(*out, 2, 2);
    first.ids = {1, 2};
    w.deliver(first);
    w.lose_head_and_log(*out);
    w.deliver(granted{out->number(), ticket_id{77}, epoch_id{2}});
    expected = {"head_lost: killed", "resumed: head"};
  }
  SUBCASE("text in flight") {
    w.deliver(chunk_for(*out, 9, 1));
    w.deliver(granted{out->number(), ticket_id{77}, {}, 0});
    expected = {"gap: text between the head and the gateway was lost", "resumed: link"};
  }
  SUBCASE("a stage") {
    w.report_phase(phase::recovering, "shard-1 is away");
    w.report_phase(phase::recovering, "shard-1 is away");
    w.report_phase(phase::ready);
    expected = {"recovering: shard-1 is away", "recovered"};
  }
  SUBCASE("nothing: its queue drains") {
    w.report_phase(phase::draining);
    w.report_phase(phase::ready);
    expected = {};
  }
  w.deliver(chunk_for(*out, 3, 1, finish::stop));
  const auto server = w.only_one();
  CHECK(server.failure.empty());
  CHECK(span_events(server) == expected);
}

TEST_CASE("a request without a trace records nothing, and costs its head nothing") {
  client_with_traces w;
  auto out = w.new_stream();
  generate g;
  g.model = "m";
  g.input = std::string("hello");
  w.deliver(open_generate{out, g, true});
  w.deliver(granted{out->number(), ticket_id{77}, epoch_id{1}});
  w.report_phase(phase::recovering);
  w.lose_head();
  w.deliver(close_request{out->number(), cancel_reason::client_gone});
  CHECK(w.ended().empty());
}

namespace {

struct router_with_traces : traced<request_router_world> {
  using traced<request_router_world>::traced;

  std::shared_ptr<stream> open_traced() {
    auto out = new_stream();
    generate g;
    g.model = "m";
    g.input = std::string("hello");
    ask(open_generate{out, g, true, true, nullptr, nullptr, begin()});
    return out;
  }
};

} // namespace

TEST_CASE("a request refused for load by one pipeline and accepted by another is one span") {
  router_with_traces w(texts{"m", "m"});
  auto out = w.open_traced();
  const auto first = *w.where(*out);
  w.refuse(first, *out, errc::overloaded);
  const auto handed = "handed_over: by pipeline " + std::to_string(first) + ": overloaded";
  SUBCASE("the other one accepts it") {
    w.grant(1 - first, *out, ticket_id{640 + 1 - first});
    chunk c;
    c.request = out->number();
    c.ticket = ticket_id{640 + 1 - first};
    c.index = c.count = 1;
    c.finish = finish::stop;
    w.deliver(1 - first, chunks{{c}, {}});
    const auto server = w.only_one();
    CHECK(server.failure.empty());
    CHECK(span_events(server) == texts{handed});
  }
  SUBCASE("none accepts it") {
    w.refuse(1 - first, *out, errc::overloaded);
    const auto server = w.only_one();
    CHECK(server.failure == "overloaded");
    CHECK(span_events(server).front() == handed);
  }
}

TEST_CASE("a stream that moves is one span, with its new pipeline") {
  router_with_traces w(texts{"m", "m"});
  auto out = w.open_traced();
  const auto home = *w.where(*out);
  const auto other = 1 - home;
  w.grant(home, *out, ticket_id{640 + home});
  const auto say = [&](std::uint32_t pipeline, std::uint32_t index, finish how) {
    chunk c;
    c.request = out->number();
    c.ticket = ticket_id{640 + pipeline};
    c.index = index;
    c.count = 1;
    c.ids = {7};
    c.finish = how;
    w.deliver(pipeline, chunks{{c}, {}});
  };
  say(home, 1, finish::none);
  w.lose(home);
  w.time.advance_time(move_patience);
  w.deliver(home, actors::tick{});
  REQUIRE(w.reserves(other) == 1);
  w.grant(other, *out, ticket_id{640 + other});
  say(other, 2, finish::stop);
  const auto server = w.only_one();
  CHECK(server.failure.empty());
  const auto events = span_events(server);
  REQUIRE(events.size() == 3);
  CHECK(events[0] == "head_lost: killed");
  CHECK(events[1] == "handed_over: by pipeline " + std::to_string(home) + ": not_ready");
  CHECK(events[2] ==
        "moved: from pipeline " + std::to_string(home) + " to " + std::to_string(other));
}

TEST_CASE("a ticket that no pipeline has granted is refused, and traced") {
  router_with_traces w(texts{"m", "n"});
  auto trace = w.traces->begin(std::nullopt, "http", w.time.clock().now());
  trace->data.asks = request_trace::operation::resume;
  trace->data.opened("m", 1);
  auto out = w.new_stream();
  w.ask(open_resume{
      out, "m", ticket_id{63}, 1, {resume_point{}}, nullptr, nullptr, std::move(trace)});
  CHECK(w.only_one().failure == "ticket_not_found");
}
