// The pool of a worker model. Its queue has its own tests.
#include "tests/unit/workers/pool_world.hpp"

using namespace baton;
using namespace baton::gateway;
using namespace baton::gateway::test;
using namespace std::chrono_literals;

TEST_CASE("a request goes to a worker, its pieces to its stream, and then it ends") {
  pool_world w;
  w.deliver(worker_greeted{first});
  CHECK(w.reported_phases() == std::vector{phase::ready});
  auto out = w.ask();
  CHECK(w.batches() == numbers{{out->number()}});
  w.piece(*out, 0, false, "a");
  w.piece(*out, 1, true, "b");
  CHECK(body_of(*out) == "a");
  CHECK(body_of(*out) == "b");
  CHECK(w.facts->requests_open() == 0);
}

TEST_CASE("a batch that is not full starts after its delay, without any other event") {
  pool_world w({.batch_size = 3, .max_batch_delay = 40ms});
  w.deliver(worker_greeted{first});
  auto a = w.ask();
  auto b = w.ask();
  CHECK(w.batches().empty());
  w.pass(39ms);
  CHECK(w.batches().empty());
  w.pass(1ms);
  CHECK(w.batches() == numbers{{a->number(), b->number()}});
}

TEST_CASE("the state of the model is reported") {
  pool_world w;
  auto a = w.ask();
  CHECK(w.load->workers == 0);
  CHECK(w.load->waiting == 1);
  w.deliver(worker_greeted{first});
  auto b = w.ask();
  CHECK(w.load->workers == 1);
  CHECK(w.load->waiting == 1);
  CHECK(w.load->running == 1);
  const auto text = worker_metrics({{"m", "2", w.load}});
  CHECK(text.find("baton_worker_requests_waiting{model_name=\"m\",version=\"2\"} 1\n") !=
        text.npos);
  CHECK(worker_metrics({}).empty());
}

TEST_CASE("batches are counted by their size, once the last of their requests has ended") {
  pool_world w({.batch_size = 2, .max_batch_delay = 40ms});
  CHECK(w.load->tally.load_seconds().empty());
  w.deliver(worker_greeted{first, 2'500'000});
  CHECK(w.load->tally.load_seconds() == std::map<std::string, double>{{"worker-m-0", 2.5}});
  auto a = w.ask();
  auto b = w.ask();
  w.pass(10ms);
  w.piece(*a, 0, true);
  CHECK(w.load->tally.batches().empty());
  w.pass(20ms);
  w.piece(*b, 0, true);
  auto batch_counts = w.load->tally.batches();
  REQUIRE(batch_counts.size() == 1);
  CHECK(batch_counts.at(2).count == 1);
  CHECK(batch_counts.at(2).seconds == doctest::Approx(0.03));
  for (int i = 0; i < 2; ++i) {
    auto alone = w.ask();
    w.pass(45ms);
    w.piece(*alone, 0, true);
  }
  batch_counts = w.load->tally.batches();
  CHECK(batch_counts.at(1).count == 2);
  CHECK(batch_counts.at(2).count == 1);
}

TEST_CASE("a batch without a success is not counted, and a retried one is new") {
  pool_world w;
  w.deliver(worker_greeted{first});
  auto gone = w.ask();
  gone->detach();
  w.deliver(close_request{gone->number()});
  w.piece(*gone, 0, true);
  CHECK(w.load->tally.batches().empty());
  auto again = w.ask();
  w.deliver(worker_lost{first, "it ended", true});
  w.deliver(worker_greeted{first_again});
  w.pass(50ms);
  w.piece(*again, 0, true, "a", first_again);
  const auto batch_counts = w.load->tally.batches();
  CHECK(batch_counts.size() == 1);
  CHECK(batch_counts.at(1).count == 1);
}

TEST_CASE("a handler's failure ends its request") {
  pool_world w;
  w.deliver(worker_greeted{first});
  auto out = w.ask();
  w.failure(*out, "it raised");
  CHECK(failure_of(*out) == errc::handler_failed);
  CHECK(w.facts->requests_open() == 0);
}

TEST_CASE("an API server is woken for an answer after all metrics include it") {
  pool_world w;
  w.deliver(worker_greeted{first});
  int woken = 0;
  std::uint64_t succeeded = 0, failed = 0;
  const auto look = [&] {
    ++woken;
    const auto tally = w.facts->metrics().tally_of("");
    succeeded = tally.succeeded;
    failed = tally.failed;
    CHECK(w.facts->requests_open() == 0);
    CHECK(w.load->running == 0);
  };
  auto well = w.ask(1 << 20, "", look);
  w.piece(*well, 0, true);
  CHECK(woken == 1);
  CHECK(succeeded == 1);
  CHECK(w.load->tally.batches().at(1).count == 1);
  auto bad = w.ask(1 << 20, "", look);
  w.failure(*bad, "it raised");
  CHECK(woken == 2);
  CHECK(failed == 1);
}

TEST_CASE("a client that leaves is reported to the worker, whose pieces are dropped") {
  pool_world w;
  w.deliver(worker_greeted{first});
  auto out = w.ask();
  w.sent.clear();
  out->detach();
  w.deliver(close_request{out->number()});
  REQUIRE(w.sent.size() == 1);
  CHECK(std::get<cancel_infer>(w.sent[0].second).request == out->number());
  CHECK(w.facts->requests_open() == 0);
  w.piece(*out, 0, true);
  auto next = w.ask();
  CHECK(w.batches() == numbers{{next->number()}});
}

TEST_CASE("a client that does not read is disconnected, and its worker notified") {
  pool_world w;
  w.deliver(worker_greeted{first});
  auto out = w.ask(/*buffer_max=*/2000);
  w.sent.clear();
  w.piece(*out, 0, false, std::string(1000, 'a'));
  CHECK(w.sent.empty());
  w.piece(*out, 1, false, std::string(1000, 'b'));
  REQUIRE(w.sent.size() == 1);
  CHECK(std::holds_alternative<cancel_infer>(w.sent[0].second));
  CHECK(failure_of(*out) == errc::slow_reader);
  CHECK(w.facts->requests_open() == 0);
}

TEST_CASE("a request refused for load is rejected with a retry time") {
  pool_world w({.max_queued = 1});
  auto first_one = w.ask();
  auto out = w.ask();
  const auto e = out->next();
  REQUIRE(e);
  const auto& no = std::get<rejected>(*e);
  CHECK(no.reason.code == errc::overloaded);
  CHECK(no.retry_after > 0ms);
  CHECK(no.queue_position == 1);
  CHECK(w.facts->requests_open() == 1);
}

TEST_CASE("the root ends the process of a hanging worker; a later root is notified as well") {
  pool_world w({.response_timeout = 1s});
  w.deliver(worker_greeted{first});
  auto out = w.ask();
  w.reported_phases();
  w.pass(1s);
  w.deliver(actors::tick{});
  CHECK(failure_of(*out) == errc::deadline_exceeded);
  CHECK(w.reported_phases() == std::vector{phase::failed});
  hello root;
  root.role = role::root;
  w.deliver(actors::peer_up{root});
  CHECK(w.reported_phases() == std::vector{phase::failed});
  w.deliver(worker_lost{first, "its process has ended", /*has_ended=*/true});
  w.deliver(worker_greeted{first_again});
  w.deliver(actors::peer_up{root});
  CHECK(w.reported_phases() == std::vector{phase::ready, phase::ready});
}

TEST_CASE("a fenced incarnation does not come back, even if it sends a greeting") {
  pool_world w({.response_timeout = 1s});
  w.deliver(worker_greeted{first});
  auto hangs = w.ask();
  w.pass(1s);
  w.deliver(actors::tick{});
  w.reported_phases();
  w.batches();
  auto waits = w.ask();
  w.deliver(worker_greeted{first});
  CHECK(w.reported_phases() == std::vector{phase::failed});
  CHECK(w.batches().empty());
  w.deliver(worker_lost{first, "its process has ended", /*has_ended=*/true});
  w.deliver(worker_greeted{first_again});
  CHECK(w.reported_phases() == std::vector{phase::ready});
  CHECK(w.batches() == numbers{{waits->number()}});
}

TEST_CASE("a piece larger than a client's message is its handler's failure") {
  pool_world w;
  w.deliver(worker_greeted{first});
  auto out = w.ask(/*buffer_max=*/64 << 20);
  w.sent.clear();
  w.piece(*out, 0, false, std::string(limits::infer_bytes_max + 1, 'x'));
  CHECK(failure_of(*out) == errc::handler_failed);
  CHECK(w.facts->requests_open() == 0);
  REQUIRE(w.sent.size() == 1);
  CHECK(std::get<cancel_infer>(w.sent[0].second).request == out->number());
  w.piece(*out, 1, true);
  auto next = w.ask();
  CHECK(w.batches() == numbers{{next->number()}});
}

TEST_CASE("each request is traced once, however it ends") {
  pool_world w;
  auto traces = std::make_shared<tracer>(tracer_settings{});
  const auto ask = [&](std::size_t buffer_max = 1 << 20) {
    REQUIRE(w.facts->enter());
    auto out = std::make_shared<stream>(w.facts->next_number(), buffer_max, nullptr);
    auto trace = traces->begin(std::nullopt, "http", w.time.clock().now());
    trace->data.asks_for(request_trace::operation::infer, "m");
    trace->data.opened("m", 0);
    infer request;
    request.body = "question";
    w.deliver(open_infer{out, request, nullptr, std::move(trace)});
    return out;
  };
  auto out = ask();
  w.pass(20ms);
  w.deliver(worker_greeted{first});
  std::string expected;
  std::vector<std::string> events;
  SUBCASE("its answer") {
    w.piece(*out, 0, false);
    CHECK(traces->take(SIZE_MAX, {}, false).empty());
    w.piece(*out, 1, true);
  }
  SUBCASE("the answer of the next incarnation") {
    w.deliver(worker_greeted{first_again});
    w.piece(*out, 0, true, "piece", first_again);
    events = {"resumed"};
  }
  SUBCASE("its worker's end") {
    w.piece(*out, 0, false);
    w.deliver(worker_lost{first, "killed", /*has_ended=*/true});
    expected = "worker_lost";
  }
  SUBCASE("its client leaves") {
    w.deliver(close_request{out->number(), cancel_reason::client_gone});
    expected = "cancelled";
    events = {"client_left"};
  }
  SUBCASE("its client does not read") {
    w.piece(*out, 0, false, std::string(900'000, 'x'));
    w.piece(*out, 1, true, std::string(900'000, 'x'));
    expected = "slow_reader";
  }
  const auto taken = traces->take(SIZE_MAX, {}, false);
  REQUIRE(taken.size() == 1);
  const auto spans = taken[0].spans();
  REQUIRE(spans.size() == 3);
  CHECK(spans[0].name == "infer m");
  CHECK(spans[0].failure == expected);
  CHECK(spans[1].end_unix_nanos - spans[1].begin_unix_nanos == 20'000'000);
  REQUIRE(spans[0].events.size() == events.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    CHECK(spans[0].events[i].name == events[i]);
  }
}

TEST_CASE("requests of a worker whose process ended go to its next incarnation") {
  pool_world w;
  w.deliver(worker_greeted{first});
  auto out = w.ask();
  w.deliver(worker_lost{first, "its process has ended", /*has_ended=*/true});
  w.batches();
  CHECK(w.reported_phases() == std::vector{phase::ready}); // the root has detected the end itself
  w.deliver(worker_greeted{first_again});
  CHECK(w.batches() == numbers{{out->number()}});
  w.piece(*out, 0, true, "late", first);
  CHECK_FALSE(out->next());
  w.piece(*out, 0, true, "well", first_again);
  CHECK(body_of(*out) == "well");
}

TEST_CASE("a worker that leaves is released when it is idle") {
  pool_world w;
  w.deliver(worker_greeted{first});
  auto out = w.ask();
  w.sent.clear();
  w.deliver(worker_leaving{first});
  CHECK(w.sent.empty());
  w.piece(*out, 0, true);
  REQUIRE(w.sent.size() == 1);
  CHECK(std::holds_alternative<drain>(w.sent[0].second));
}

TEST_CASE("queue parameters of a request apply, and wrong ones are refused") {
  schedule::worker_limits limits;
  limits.priority_levels = 2;
  limits.default_priority_level = 2;
  limits.default_queue_policy.allow_timeout_override = true;
  pool_world w(limits);
  auto late = w.ask(1 << 20, R"({"timeout": 20000})");
  auto low = w.ask();
  auto high = w.ask(1 << 20, R"({"priority": 1})");
  auto wrong = w.ask(1 << 20, R"({"priority": 3})");
  const auto refusal = wrong->next();
  REQUIRE(refusal);
  const auto& no = std::get<rejected>(*refusal);
  CHECK(no.reason.code == errc::invalid_value);
  CHECK(no.reason.param == "priority");
  CHECK(no.retry_after.count() == 0);
  w.pass(20ms); // without any other event
  CHECK(failure_of(*late) == errc::queue_timeout);
  w.deliver(worker_greeted{first});
  CHECK(w.batches() == numbers{{high->number()}});
  w.piece(*high, 0, true);
  CHECK(w.batches() == numbers{{low->number()}});
  w.piece(*low, 0, true);
  CHECK(w.facts->requests_open() == 0);
}

TEST_CASE("with preserved order, answers are delivered in the order of requests") {
  schedule::worker_limits limits{.batch_size = 3, .max_batch_delay = 0ms};
  limits.preserve_ordering = true;
  pool_world w(limits);
  auto a = w.ask();
  auto b = w.ask();
  auto c = w.ask();
  w.deliver(worker_greeted{first});
  REQUIRE(w.batches() == numbers{{a->number(), b->number(), c->number()}});
  w.piece(*c, 0, true, "c");
  w.piece(*b, 0, false, "b1");
  CHECK_FALSE(c->next());
  CHECK_FALSE(b->next());
  w.piece(*a, 0, true, "a");
  CHECK(body_of(*a) == "a");
  CHECK(body_of(*b) == "b1");
  CHECK_FALSE(c->next());
  w.piece(*b, 1, true, "b2");
  CHECK(body_of(*b) == "b2");
  CHECK(body_of(*c) == "c");
  CHECK(w.facts->requests_open() == 0);
}

TEST_CASE("clients that leave and lost workers block no other request") {
  schedule::worker_limits limits{.batch_size = 4, .max_batch_delay = 0ms};
  limits.preserve_ordering = true;
  pool_world w(limits);
  std::vector<std::shared_ptr<stream>> all;
  for (int i = 0; i < 4; ++i)
    all.push_back(w.ask());
  w.deliver(worker_greeted{first});
  w.piece(*all[3], 0, true, "last");
  w.piece(*all[2], 0, false, "third");
  all[0]->detach();
  w.deliver(close_request{all[0]->number()});
  CHECK_FALSE(all[3]->next());
  w.piece(*all[1], 0, true, "second");
  CHECK(body_of(*all[1]) == "second");
  CHECK(body_of(*all[2]) == "third");
  w.deliver(worker_lost{first, "killed", /*has_ended=*/true});
  CHECK(failure_of(*all[2]) == errc::worker_lost);
  CHECK(body_of(*all[3]) == "last");
  CHECK(w.facts->requests_open() == 0);
}

TEST_CASE("answers held beyond the limit end") {
  schedule::worker_limits limits{.batch_size = 2, .max_batch_delay = 0ms};
  limits.preserve_ordering = true;
  pool_world w(limits);
  auto a = w.ask();
  auto b = w.ask();
  w.deliver(worker_greeted{first});
  for (std::uint32_t i = 0; i < 7; ++i)
    w.piece(*b, i, false, std::string(10 << 20, 'x'));
  CHECK(failure_of(*b) == errc::overloaded);
  w.piece(*a, 0, true, "a");
  CHECK(body_of(*a) == "a");
  CHECK(w.facts->requests_open() == 0);
}
