// Sampling of requests, and the queue between request threads, which must not block, and the
// exporter.
#include "gateway/tracing/tracer.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::gateway;
using namespace std::chrono_literals;

namespace {

const tracer::instant begin{1h};
// In the past on every machine: no wait. `begin` may be in the future on a machine that has just
// started.
const tracer::instant at_once{};

std::shared_ptr<tracer> tracer_with(double ratio, std::size_t waiting_max = traces_waiting_max) {
  tracer_settings settings;
  settings.sampling_ratio = ratio;
  settings.waiting_max = waiting_max;
  return std::make_shared<tracer>(std::move(settings));
}

// Takes those that have ended, without waiting.
std::vector<request_trace> ended(tracer& t) {
  return t.take(SIZE_MAX, at_once, false);
}

trace_parent caller_span(bool is_sampled) {
  trace_parent parent;
  parent.trace.fill(0xab);
  parent.span.fill(0xcd);
  parent.flags = is_sampled ? flag_sampled : 0;
  parent.state = "congo=1";
  return parent;
}

} // namespace

TEST_CASE("a caller's trace is sampled as the caller decided, whatever the ratio") {
  const auto none = tracer_with(0);
  const auto all = tracer_with(1);
  CHECK(none->begin(caller_span(true), "http", begin));
  CHECK_FALSE(all->begin(caller_span(false), "http", begin));
  const auto trace = all->begin(caller_span(true), "websocket", begin);
  REQUIRE(trace);
  CHECK(trace->data.self.trace == caller_span(true).trace);
  CHECK(trace->data.parent == caller_span(true).span);
  CHECK(trace->data.self.span != caller_span(true).span);
  CHECK(trace->data.self.state == "congo=1");
  CHECK(trace->data.self.flags == flag_sampled);
  CHECK(trace->data.protocol == "websocket");
}

TEST_CASE("a trace that begins here is sampled at random, and has its own ids") {
  CHECK_FALSE(tracer_with(0)->begin(std::nullopt, "http", begin));
  const auto all = tracer_with(1);
  const auto one = all->begin(std::nullopt, "http", begin);
  const auto other = all->begin(std::nullopt, "http", begin);
  REQUIRE(one);
  REQUIRE(other);
  CHECK(one->data.self.trace != other->data.self.trace);
  CHECK(one->data.self.span != other->data.self.span);
  CHECK_FALSE(one->data.parent);
  CHECK(one->data.self.is_sampled());
  CHECK(parse_traceparent(traceparent_of(one->data.self)));
  const auto some = tracer_with(0.25);
  int drawn = 0;
  for (int i = 0; i < 4000; ++i) {
    drawn += some->begin(std::nullopt, "http", begin) ? 1 : 0;
  }
  CHECK(drawn > 800); // 1000; 27 is the standard deviation of such draws
  CHECK(drawn < 1200);
}

TEST_CASE("no id is all zeroes") {
  tracer_settings settings;
  settings.random = [n = std::uint64_t{0}]() mutable { return n++ % 2; };
  const auto t = std::make_shared<tracer>(std::move(settings));
  const auto trace = t->begin(std::nullopt, "http", begin);
  REQUIRE(trace);
  CHECK(parse_traceparent(traceparent_of(trace->data.self)));
}

TEST_CASE("each trace comes once, when its last owner drops it") {
  const auto t = tracer_with(1);
  auto trace = t->begin(std::nullopt, "http", begin);
  auto other = trace;
  trace.reset();
  CHECK(ended(*t).empty());
  other->data.route = "POST /x";
  other->data.refused_with(400, begin);
  other.reset();
  const auto taken = ended(*t);
  REQUIRE(taken.size() == 1);
  CHECK(taken[0].route == "POST /x");
  CHECK(ended(*t).empty());
}

TEST_CASE("a request without a recorded end was cut off") {
  const auto t = tracer_with(1);
  t->begin(std::nullopt, "http", begin).reset();
  const auto taken = ended(*t);
  REQUIRE(taken.size() == 1);
  CHECK(taken[0].spans()[0].failure == "cancelled");
}

TEST_CASE("the queue is bounded: traces beyond the limit are dropped and counted") {
  const auto t = tracer_with(1, 2);
  for (int i = 0; i < 5; ++i) {
    t->begin(std::nullopt, "http", begin).reset();
  }
  CHECK(t->take_dropped() == 3);
  CHECK(t->take_dropped() == 0);
  CHECK(ended(*t).size() == 2);
}

TEST_CASE("a batch has at most the requested number, oldest first") {
  const auto t = tracer_with(1);
  for (const auto* route : {"a", "b", "c"}) {
    t->begin(std::nullopt, "http", begin)->data.route = route;
  }
  const auto first = t->take(2, at_once, false);
  REQUIRE(first.size() == 2);
  CHECK(first[0].route == "a");
  CHECK(first[1].route == "b");
  CHECK(ended(*t).size() == 1);
}

TEST_CASE("a tracer is drained once nothing is open and nothing is queued") {
  const auto t = tracer_with(1);
  auto open = t->begin(std::nullopt, "http", begin);
  CHECK_FALSE(t->is_drained());
  t->drain();
  CHECK_FALSE(t->is_drained());
  open.reset();
  CHECK_FALSE(t->is_drained());
  CHECK(t->take(10, tracer::instant::clock::now() + 1h, true).size() == 1);
  CHECK(t->is_drained());
  CHECK(t->take(10, tracer::instant::clock::now() + 1h, true).empty());
}

TEST_CASE("a closed tracer keeps nothing") {
  const auto t = tracer_with(1);
  auto open = t->begin(std::nullopt, "http", begin);
  t->begin(std::nullopt, "http", begin).reset();
  t->close();
  CHECK(t->take_dropped() == 1);
  open.reset();
  CHECK(t->take_dropped() == 1);
  CHECK(ended(*t).empty());
}
