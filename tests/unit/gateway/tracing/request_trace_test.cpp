// The trace of a request: spans, and their JSON. Pure, with the test's own times.
#include "gateway/tracing/request_trace.hpp"
#include "schema/result.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace baton;
using namespace baton::gateway;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

constexpr std::uint64_t unix_begin = 1'700'000'000'000'000'000;
constexpr std::uint64_t ms = 1'000'000;

struct course {
  request_trace t;
  const request_trace::instant begin{1h};

  course() {
    t.self.trace.fill(0xab);
    t.self.span = {1, 2, 3, 4, 5, 6, 7, 8};
    t.self.flags = flag_sampled;
    t.protocol = "http";
    t.arrived_at = begin;
    t.arrived_unix_nanos = unix_begin;
  }
  course& asks(std::uint32_t choices = 1) {
    generate g;
    g.input = chat_prompt{{"user", "hello", ""}};
    g.model = "alias";
    g.terms.max_tokens_given = true;
    g.terms.stop.max_tokens = 7;
    g.terms.sampling.temperature = 0.5F;
    t.asks_for(g);
    t.opened("smollm2", choices);
    return *this;
  }
  course& grant(std::chrono::milliseconds at) {
    t.take(granted{1, ticket_id{pipelines_max * 10 + 3}, epoch_id{1}}, begin + at);
    return *this;
  }
  course& chunk_at(std::chrono::milliseconds at, std::uint32_t index, std::uint32_t count,
                   finish how = finish::none, std::uint32_t choice = 0,
                   std::optional<error> why = std::nullopt) {
    chunk c;
    c.choice = choice;
    c.index = index;
    c.count = count;
    c.prompt_tokens = 20;
    c.cached_tokens = 16;
    c.finish = how;
    c.failure = std::move(why);
    t.take(std::move(c), begin + at);
    return *this;
  }
};

const span_attribute::value_type* find(const span& s, std::string_view key) {
  for (const auto& a : s.attributes) {
    if (a.key == key) {
      return &a.value;
    }
  }
  return nullptr;
}

std::string attribute_text(const span& s, std::string_view key) {
  const auto* v = find(s, key);
  return v && std::holds_alternative<std::string>(*v) ? std::get<std::string>(*v) : "(none)";
}

std::int64_t number_of(const span& s, std::string_view key) {
  const auto* v = find(s, key);
  return v && std::holds_alternative<std::int64_t>(*v) ? std::get<std::int64_t>(*v) : -1;
}

std::vector<std::string> names_of(const std::vector<span>& spans) {
  std::vector<std::string> names;
  for (const auto& s : spans) {
    names.push_back(s.name);
  }
  return names;
}

using names = std::vector<std::string>;

} // namespace

TEST_CASE("an answer is a server span, with queue, prefill and decode below it") {
  course c;
  c.asks().grant(10ms).chunk_at(40ms, 1, 1).chunk_at(90ms, 5, 4, finish::length);
  CHECK(c.t.has_ended());
  const auto all = c.t.spans();
  REQUIRE(names_of(all) == names{"chat smollm2", "queue", "prefill", "decode"});
  CHECK(c.t.span_count() == all.size());
  const auto& server = all[0];
  CHECK(server.kind == span_kind::server);
  CHECK_FALSE(server.parent);
  CHECK(server.failure.empty());
  CHECK(server.begin_unix_nanos == unix_begin);
  CHECK(server.end_unix_nanos == unix_begin + 90 * ms);
  CHECK(attribute_text(server, "gen_ai.operation.name") == "chat");
  CHECK(attribute_text(server, "gen_ai.provider.name") == "baton");
  CHECK(attribute_text(server, "gen_ai.request.model") == "alias");
  CHECK(attribute_text(server, "gen_ai.response.model") == "smollm2");
  CHECK(number_of(server, "gen_ai.request.max_tokens") == 7);
  CHECK(std::get<double>(*find(server, "gen_ai.request.temperature")) == 0.5);
  CHECK(number_of(server, "gen_ai.usage.input_tokens") == 20);
  CHECK(number_of(server, "gen_ai.usage.cache_read.input_tokens") == 16);
  CHECK(number_of(server, "gen_ai.usage.output_tokens") == 5);
  CHECK(std::get<names>(*find(server, "gen_ai.response.finish_reasons")) == names{"length"});
  CHECK(number_of(server, "baton.ticket") == pipelines_max * 10 + 3);
  CHECK(number_of(server, "baton.pipeline") == 3);
  CHECK(attribute_text(server, "error.type") == "(none)");
  const std::vector<std::pair<std::uint64_t, std::uint64_t>> stretches{{0, 10}, {10, 40}, {40, 90}};
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    const auto& child = all[i + 1];
    CHECK(child.kind == span_kind::internal);
    CHECK(child.trace == server.trace);
    CHECK(child.parent == server.id);
    CHECK_FALSE(child.is_parent_remote);
    CHECK(child.begin_unix_nanos == unix_begin + stretches[i].first * ms);
    CHECK(child.end_unix_nanos == unix_begin + stretches[i].second * ms);
    for (std::size_t other = 0; other <= i; ++other) {
      CHECK(child.id != all[other].id);
    }
  }
}

TEST_CASE("a span with a remote parent is its child, and carries its state") {
  course c;
  c.t.parent = span_id{9, 9, 9, 9, 9, 9, 9, 9};
  c.t.self.state = "congo=1";
  c.asks().grant(1ms).chunk_at(2ms, 1, 1, finish::stop);
  const auto all = c.t.spans();
  CHECK(all[0].parent == span_id{9, 9, 9, 9, 9, 9, 9, 9});
  CHECK(all[0].is_parent_remote);
  CHECK(all[0].state == "congo=1");
  CHECK(all[3].state == "congo=1");
}

TEST_CASE("it ends with the last choice, or with the first failure") {
  course c;
  c.asks(2).grant(1ms).chunk_at(2ms, 3, 3, finish::stop);
  CHECK_FALSE(c.t.has_ended());
  SUBCASE("both end well") {
    c.chunk_at(9ms, 4, 4, finish::length, 1);
    const auto server = c.t.spans()[0];
    CHECK(number_of(server, "gen_ai.usage.output_tokens") == 7);
    CHECK(number_of(server, "gen_ai.request.choice.count") == 2);
    CHECK(std::get<names>(*find(server, "gen_ai.response.finish_reasons")) ==
          names{"stop", "length"});
    CHECK(server.failure.empty());
  }
  SUBCASE("one fails, and its client is informed and leaves") {
    c.chunk_at(9ms, 1, 1, finish::failed, 1, fail(errc::pipeline_lost, "gone"));
    c.t.failed_by(errc::cancelled, c.begin + 10ms);
    const auto server = c.t.spans()[0];
    CHECK(server.failure == "pipeline_lost");
    CHECK(attribute_text(server, "error.type") == "pipeline_lost");
    CHECK(server.end_unix_nanos == unix_begin + 9 * ms);
    CHECK(std::get<names>(*find(server, "gen_ai.response.finish_reasons")) ==
          names{"stop", "error"});
  }
}

TEST_CASE("phases that a request did not reach are no spans") {
  course c;
  SUBCASE("refused by the API server") {
    generate g;
    g.input = std::string("x");
    c.t.asks_for(g);
    c.t.failed_by(errc::model_not_found, c.begin + 1ms);
    CHECK(names_of(c.t.spans()) == names{"text_completion"});
    CHECK(c.t.spans()[0].failure == "model_not_found");
    CHECK(find(c.t.spans()[0], "gen_ai.usage.output_tokens") == nullptr);
  }
  SUBCASE("refused by the head") {
    rejected no;
    no.reason = fail(errc::overloaded, "full");
    c.asks().t.take(no, c.begin + 5ms);
    CHECK(names_of(c.t.spans()) == names{"chat smollm2", "queue"});
    CHECK(c.t.spans()[1].end_unix_nanos == unix_begin + 5 * ms);
  }
  SUBCASE("its client leaves before a token") {
    c.asks().grant(2ms).t.failed_by(errc::cancelled, c.begin + 5ms);
    CHECK(names_of(c.t.spans()) == names{"chat smollm2", "queue", "prefill"});
    CHECK(find(c.t.spans()[0], "gen_ai.usage.input_tokens") == nullptr); // unknown
    CHECK(number_of(c.t.spans()[0], "gen_ai.usage.output_tokens") == 0);
  }
  SUBCASE("a resumed request has begun before") {
    c.t.asks = request_trace::operation::resume;
    c.t.opened("smollm2", 1);
    c.grant(1ms).chunk_at(3ms, 9, 2, finish::stop);
    CHECK(names_of(c.t.spans()) == names{"resume smollm2", "queue", "decode"});
    CHECK(number_of(c.t.spans()[0], "gen_ai.usage.output_tokens") == 9);
  }
  SUBCASE("a question has no phases") {
    c.t.asks = request_trace::operation::tokenize;
    c.t.opened("smollm2", 0);
    c.t.take(tokenized{}, c.begin + 5ms);
    CHECK(c.t.has_ended());
    CHECK(names_of(c.t.spans()) == names{"tokenize smollm2"});
    CHECK(c.t.spans()[0].failure.empty());
  }
  SUBCASE("a question without an answer") {
    c.t.asks = request_trace::operation::detokenize;
    c.t.opened("smollm2", 0);
    detokenized d;
    d.failure = fail(errc::invalid_value, "no such token");
    c.t.take(d, c.begin + 5ms);
    CHECK(c.t.spans()[0].failure == "invalid_value");
  }
  SUBCASE("a worker's request, and its retry when the first worker is lost") {
    c.t.asks_for(request_trace::operation::infer, "upper");
    c.t.opened("upper", 0);
    c.t.begun(c.begin + 2ms);
    c.t.begun(c.begin + 4ms);
    inferred piece;
    c.t.take(piece, c.begin + 5ms);
    CHECK_FALSE(c.t.has_ended());
    piece.is_last = true;
    c.t.take(piece, c.begin + 6ms);
    const auto all = c.t.spans();
    CHECK(names_of(all) == names{"infer upper", "queue", "infer"});
    CHECK(all[0].failure.empty());
    CHECK(find(all[0], "gen_ai.usage.output_tokens") == nullptr);
    CHECK(find(all[0], "gen_ai.request.temperature") == nullptr);
    REQUIRE(all[0].events.size() == 1);
    CHECK(all[0].events[0].name == "resumed");
    CHECK(all[1].end_unix_nanos == unix_begin + 2 * ms);
    CHECK(all[2].end_unix_nanos == unix_begin + 6 * ms);
  }
  SUBCASE("a worker's failure") {
    c.t.asks_for(request_trace::operation::infer, "upper");
    c.t.opened("upper", 0);
    c.t.take(failed{fail(errc::internal, "it raised")}, c.begin + 5ms);
    CHECK(names_of(c.t.spans()) == names{"infer upper", "queue"});
    CHECK(c.t.spans()[0].failure == "internal");
  }
  SUBCASE("refused before it was read") {
    c.t.route = "POST /v1/completions";
    c.t.refused_with(413, c.begin + 1ms);
    const auto all = c.t.spans();
    CHECK(names_of(all) == names{"POST /v1/completions"});
    CHECK(attribute_text(all[0], "http.route") == "/v1/completions");
    CHECK(attribute_text(all[0], "http.request.method") == "POST");
    CHECK(attribute_text(all[0], "error.type") == "413");
    CHECK(number_of(all[0], "http.response.status_code") == 413);
  }
  CHECK(c.t.span_count() == c.t.spans().size());
}

TEST_CASE("incidents are events, up to a limit") {
  course c;
  c.asks().grant(1ms);
  c.t.note("head_lost", "killed", c.begin + 2ms);
  c.t.note("resumed", "link", c.begin + 3ms);
  const auto events = c.t.spans()[0].events;
  REQUIRE(events.size() == 2);
  CHECK(events[0].name == "head_lost");
  CHECK(events[0].unix_nanos == unix_begin + 2 * ms);
  CHECK(std::get<std::string>(events[0].attributes.at(0).value) == "killed");
  for (std::size_t i = 0; i < trace_events_max; ++i) {
    c.t.note("gap", std::string(10'000, 'x'), c.begin + 4ms);
  }
  c.chunk_at(9ms, 1, 1, finish::stop);
  c.t.note("head_lost", "later", c.begin + 10ms); // it has ended
  const auto server = c.t.spans()[0];
  CHECK(server.events.size() == trace_events_max);
  CHECK(server.events_dropped == 2);
  CHECK(std::get<std::string>(server.events.back().attributes.at(0).value).size() ==
        trace_text_bytes_max);
}

TEST_CASE("the JSON is that of OTLP: ids in hex, nanoseconds and integers as strings") {
  course c;
  c.t.parent = span_id{9, 9, 9, 9, 9, 9, 9, 9};
  c.t.self.state = "congo=1";
  c.asks().grant(1ms);
  c.t.note("head_lost", "killed", c.begin + 2ms);
  c.t.failed_by(errc::pipeline_lost, c.begin + 3ms);
  const auto body =
      json::parse(otlp_body({{"service.name", std::string("baton")}}, "1.2", c.t.spans()));
  REQUIRE(body["resourceSpans"].size() == 1);
  const auto& of_resource = body["resourceSpans"][0];
  CHECK(of_resource["resource"]["attributes"] ==
        json::parse(R"([{"key":"service.name","value":{"stringValue":"baton"}}])"));
  CHECK(of_resource["scopeSpans"][0]["scope"] == json{{"name", "baton"}, {"version", "1.2"}});
  const auto& spans = of_resource["scopeSpans"][0]["spans"];
  REQUIRE(spans.size() == 3);
  auto server = spans[0];
  CHECK(server["traceId"] == "abababababababababababababababab");
  CHECK(server["spanId"] == "0102030405060708");
  CHECK(server["parentSpanId"] == "0909090909090909");
  CHECK(server["traceState"] == "congo=1");
  CHECK(server["flags"] == 0x301); // sampled; the parent is known to be remote
  CHECK(server["kind"] == 2);
  CHECK(server["startTimeUnixNano"] == "1700000000000000000");
  CHECK(server["endTimeUnixNano"] == "1700000000003000000");
  CHECK(server["status"] == json{{"code", 2}, {"message", "pipeline_lost"}});
  CHECK(server["events"] ==
        json::parse(R"([{"timeUnixNano":"1700000000002000000","name":"head_lost","attributes":)"
                    R"([{"key":"baton.reason","value":{"stringValue":"killed"}}]}])"));
  json values;
  for (const auto& a : server["attributes"]) {
    values[a["key"].get<std::string>()] = a["value"];
  }
  CHECK(values["gen_ai.request.max_tokens"] == json{{"intValue", "7"}});
  CHECK(values["gen_ai.request.temperature"] == json{{"doubleValue", 0.5}});
  CHECK(spans[1]["parentSpanId"] == "0102030405060708");
  CHECK(spans[1]["flags"] == 0x101);
  CHECK(spans[1]["kind"] == 1);
  CHECK(spans[1]["status"] == json::object());
}

TEST_CASE("a list is a list, even of two; invalid UTF-8 does not affect other values") {
  span s;
  s.name = "a\xff"
           "b";
  s.attributes = {{"two", names{"stop", "length"}}, {"one", names{"stop"}}, {"none", names{}}};
  const auto body = json::parse(otlp_body({}, "", {s, s}));
  const auto& spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"];
  REQUIRE(spans.size() == 2);
  CHECK(spans[0]["name"] == "ab");
  const auto& list = spans[0]["attributes"];
  CHECK(list[0]["value"]["arrayValue"]["values"] ==
        json::parse(R"([{"stringValue":"stop"},{"stringValue":"length"}])"));
  CHECK(list[1]["value"]["arrayValue"]["values"] == json::parse(R"([{"stringValue":"stop"}])"));
  CHECK(list[2]["value"]["arrayValue"]["values"] == json::array());
}

TEST_CASE("a collector reports the number of rejected spans, or another message") {
  CHECK(rejected_spans(R"({"partialSuccess":{"rejectedSpans":"3","errorMessage":"no"}})") == 3);
  CHECK(rejected_spans(R"({"partialSuccess":{"rejectedSpans":4}})") == 4);
  for (const auto* text :
       {"", "{}", "[]", "null", "{\"partialSuccess\":1}", "{\"partialSuccess\":{}}", "\xff", "{",
        R"({"partialSuccess":{"rejectedSpans":-1}})", R"({"partialSuccess":{"rejectedSpans":[]}})",
        R"({"partialSuccess":{"rejectedSpans":"x"}})", "<html>"}) {
    CAPTURE(text);
    CHECK(rejected_spans(text) == 0);
  }
}
