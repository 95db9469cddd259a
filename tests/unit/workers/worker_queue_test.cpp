// Batches of requests over workers that join, die, hang and leave.
#include "schema/codec/codec.hpp"
#include "tests/unit/workers/queue_fixture.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::tests;
using namespace std::chrono_literals;

TEST_CASE("with batch_size 1 a request goes to an idle worker at once") {
  queue_fixture f;
  f.up(first);
  CHECK(f.ask(1));
  CHECK(f.batches() == batches_of{requests{1}});
  CHECK(f.ask(2));
  CHECK(f.batches().empty());
  CHECK(f.piece(first, 1, 0, true));
  CHECK(f.batches() == batches_of{requests{2}});
}

TEST_CASE("a batch starts when it is full, or when its first request has waited long enough") {
  queue_fixture f({.batch_size = 3, .max_batch_delay = 50ms});
  f.up(first);
  f.up(second);
  for (std::uint64_t r = 1; r <= 3; ++r)
    CHECK(f.ask(r));
  CHECK(f.batches() == batches_of{requests{1, 2, 3}});
  CHECK(f.ask(4));
  CHECK(f.queue.due() == f.now + 50ms);
  f.pass(30ms);
  CHECK(f.ask(5));
  f.pass(19ms);
  CHECK(f.batches().empty());
  f.pass(1ms);
  CHECK(f.batches() == batches_of{requests{4, 5}});
  CHECK_FALSE(f.queue.due());
}

TEST_CASE("while all workers are busy a batch grows beyond its delay, up to its size") {
  queue_fixture f({.batch_size = 2, .max_batch_delay = 0ms});
  f.up(first);
  for (std::uint64_t r = 1; r <= 4; ++r)
    CHECK(f.ask(r));
  CHECK(f.batches() == batches_of{requests{1}});
  f.pass(1s);
  CHECK(f.batches().empty());
  f.piece(first, 1, 0, true);
  CHECK(f.batches() == batches_of{requests{2, 3}});
  f.piece(first, 3, 0, true);
  CHECK(f.batches().empty()); // the batch is not finished
  f.piece(first, 2, 0, true);
  CHECK(f.batches() == batches_of{requests{4}});
}

TEST_CASE("requests that do not fit into one message go in several") {
  queue_fixture f({.batch_size = 4, .max_batch_delay = 1h});
  f.up(first);
  f.up(second);
  CHECK(f.ask(1, limits::batch_bytes_max / 2));
  CHECK(f.ask(2, limits::batch_bytes_max / 2));
  CHECK(f.batches().empty());
  CHECK(f.ask(3, limits::batch_bytes_max / 2));
  CHECK(f.batches() == batches_of{requests{1, 2}});
}

TEST_CASE("the size estimate of a request is at least its size in a message") {
  infer m;
  m.model = "m";
  m.inputs.assign(limits::tensors_max, {"x", "FP32", {1}, "1234"});
  m.outputs.assign(limits::tensors_max, "y");
  m.headers.assign(limits::headers_max, {"n", "v"});
  m.parameters = "{}";
  m.request_id = "r";
  for (const auto& one : {m, infer{}}) {
    const auto alone = encode({}, infer_batch{1, {one}}).body.size_bytes;
    const auto both = encode({}, infer_batch{1, {one, one}}).body.size_bytes;
    CHECK(both - alone <= bytes_of(one));
  }
}

TEST_CASE("the worker that has been idle for longest is next") {
  queue_fixture f;
  f.up(first);
  f.up(second);
  std::vector<process_id> order;
  for (std::uint64_t r = 1; r <= 4; ++r) {
    CHECK(f.ask(r));
    const auto started = f.take<start_batch>();
    REQUIRE(started.size() == 1);
    order.push_back(started[0].worker.process);
    f.piece(started[0].worker, r, 0, true);
  }
  CHECK(order == std::vector{first.process, second.process, first.process, second.process});
}

TEST_CASE("beyond max_queued a request is refused for load") {
  queue_fixture f({.max_queued = 2});
  f.up(first);
  for (std::uint64_t r = 1; r <= 3; ++r)
    CHECK(f.ask(r)); // one runs
  const auto refused = f.ask(4);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::overloaded);
  CHECK(f.queue.waiting() == 2);
}

TEST_CASE("with job tickets, a request is accepted only if a worker has a free slot") {
  queue_fixture f({.batch_size = 2, .use_job_ticket = true});
  CHECK(f.ask(1).error().code == errc::no_job_ticket);
  f.up(first);
  CHECK(f.ask(1));
  CHECK(f.ask(2));
  CHECK(f.batches() == batches_of{requests{1, 2}});
  CHECK(f.ask(3).error().code == errc::no_job_ticket);
  f.piece(first, 1, 0, true);
  CHECK(f.ask(3).error().code == errc::no_job_ticket);
  f.piece(first, 2, 0, true);
  CHECK(f.ask(3));
}

TEST_CASE("pieces are delivered in order, and none after the last one") {
  queue_fixture f;
  f.up(first);
  CHECK(f.ask(1));
  CHECK(f.piece(first, 1, 0, false));
  CHECK(f.piece(first, 1, 1, true));
  CHECK_FALSE(f.piece(first, 1, 2, true));
  CHECK_FALSE(f.piece(first, 7, 0, true));
  CHECK(f.take<fence_worker>().empty());
}

TEST_CASE("a worker whose pieces are out of order is fenced and gets no more work") {
  queue_fixture f;
  f.up(first);
  CHECK(f.ask(1));
  CHECK_FALSE(f.piece(first, 1, 1, false));
  CHECK(f.ask(2));
  REQUIRE(f.orders.size() == 3);
  CHECK(std::holds_alternative<start_batch>(f.orders[0]));
  CHECK(std::get<end_request>(f.orders[1]).why.code == errc::worker_lost);
  CHECK(std::get<fence_worker>(f.orders[2]).worker == first);
  CHECK(f.queue.workers() == 0);
  f.take<start_batch>();
  f.up(first_again);
  CHECK(f.batches() == batches_of{requests{2}});
}

TEST_CASE("requests of a dead worker are retried once, each alone, before waiting ones") {
  queue_fixture f({.batch_size = 3, .max_batch_delay = 0ms});
  f.up(first);
  CHECK(f.ask(1));
  for (std::uint64_t r = 2; r <= 5; ++r)
    CHECK(f.ask(r));
  f.piece(first, 1, 0, true);
  CHECK(f.batches() == batches_of{requests{1}, requests{2, 3, 4}});
  f.gone(first);
  CHECK(f.ends().empty());
  f.up(first_again);
  for (std::uint64_t r = 2; r <= 4; ++r)
    f.piece(first_again, r, 0, true);
  CHECK(f.batches() == batches_of{requests{2}, requests{3}, requests{4}, requests{5}});
}

TEST_CASE("a request that ends two workers is refused, and no other of its batch") {
  queue_fixture f({.batch_size = 2});
  f.up(first);
  CHECK(f.ask(1));
  CHECK(f.ask(2));
  f.gone(first);
  f.up(first_again); // 1 goes alone
  f.gone(first_again);
  CHECK(f.ends() == endings{{1, errc::quarantined}});
  f.up(second);
  CHECK(f.batches() == batches_of{requests{2}});
  CHECK(f.piece(second, 2, 0, true));
}

TEST_CASE("an answer that had begun ends with its worker") {
  queue_fixture f;
  f.up(first);
  CHECK(f.ask(1));
  f.piece(first, 1, 0, false);
  f.gone(first);
  CHECK(f.ends() == endings{{1, errc::worker_lost}});
  CHECK(f.queue.running() == 0);
}

TEST_CASE("pieces of an old incarnation are not delivered") {
  queue_fixture f;
  f.up(first);
  CHECK(f.ask(1));
  f.up(first_again);
  CHECK_FALSE(f.piece(first, 1, 0, true));
  CHECK(f.piece(first_again, 1, 0, true));
  f.up(first); // a late message
  CHECK(f.queue.incarnations() == std::vector{first_again});
}

TEST_CASE("a greeting of the same incarnation means that it lost its requests") {
  queue_fixture f;
  f.up(first);
  CHECK(f.ask(1));
  f.up(first);
  CHECK(f.batches() == batches_of{requests{1}, requests{1}});
}

TEST_CASE("a worker silent for response_timeout is fenced, and its requests end") {
  queue_fixture f({.response_timeout = 1s});
  f.up(first);
  CHECK(f.ask(1));
  f.pass(900ms);
  CHECK(f.piece(first, 1, 0, false)); // between two pieces
  f.pass(999ms);
  CHECK(f.take<fence_worker>().empty());
  f.pass(1ms);
  REQUIRE(f.orders.size() == 2);
  CHECK(std::get<end_request>(f.orders[0]).why.code == errc::deadline_exceeded);
  CHECK(std::get<fence_worker>(f.orders[1]).worker == first);
  f.orders.clear();
  f.pass(10s);
  CHECK(f.orders.empty());
  CHECK_FALSE(f.piece(first, 1, 1, true));
}

TEST_CASE(
    "a client that leaves frees its slot in the queue; pieces of its running request are dropped") {
  queue_fixture f({.response_timeout = 1s});
  f.up(first);
  CHECK(f.ask(1));
  CHECK(f.ask(2));
  f.take<start_batch>();
  f.queue.cancel(2, f.now);
  f.queue.cancel(1, f.now);
  f.queue.cancel(1, f.now);
  f.look();
  CHECK(f.take<abandon_request>().size() == 1);
  CHECK(f.queue.waiting() == 0);
  CHECK(f.ask(3));
  f.now += 900ms;
  CHECK_FALSE(f.piece(first, 1, 0, false)); // and they do not extend the worker's deadline
  f.pass(100ms);
  CHECK(f.take<fence_worker>().size() == 1);
}

TEST_CASE("a worker with only abandoned requests gets its next batch in time") {
  queue_fixture f({.batch_size = 2, .response_timeout = 1s});
  f.up(first);
  CHECK(f.ask(1));
  CHECK(f.ask(2));
  f.queue.cancel(1, f.now);
  f.pass(900ms);
  CHECK_FALSE(f.piece(first, 1, 0, true));
  f.pass(900ms);
  CHECK(f.piece(first, 2, 0, true));
  CHECK(f.take<fence_worker>().empty());
}

TEST_CASE("a deadline ends waiting and running requests, each once") {
  queue_fixture f;
  f.up(first);
  CHECK(f.ask(1, 10, f.now + 1s));
  CHECK(f.ask(2, 10, f.now + 1s));
  f.pass(1s);
  CHECK(f.orders.size() == 4);
  CHECK(f.ends() == endings{{1, errc::deadline_exceeded}, {2, errc::queue_timeout}});
  f.pass(1s);
  CHECK(f.orders.empty());
  CHECK_FALSE(f.piece(first, 1, 0, true));
  CHECK(f.ask(3));
  CHECK(f.batches() == batches_of{requests{3}});
}

TEST_CASE("requests wait for a restarting worker, for a limited time") {
  queue_fixture f({.absence_max = 10s});
  f.pass(0ms);
  CHECK(f.ask(1));
  f.pass(6s);
  CHECK(f.ask(2));
  f.pass(4s);
  CHECK(f.ends() == endings{{1, errc::not_ready}});
  f.up(first);
  CHECK(f.batches() == batches_of{requests{2}});
}

TEST_CASE("a worker that leaves finishes its requests, gets no more, and is released") {
  queue_fixture f({.batch_size = 2});
  f.up(first);
  CHECK(f.ask(1));
  CHECK(f.ask(2));
  f.queue.worker_leaves(first);
  f.look();
  CHECK(f.take<release_worker>().empty());
  f.piece(first, 1, 0, true);
  CHECK(f.ask(3));
  CHECK(f.ask(4));
  f.piece(first, 2, 0, true);
  CHECK(f.take<release_worker>().size() == 1);
  f.up(second);
  CHECK(f.batches() == batches_of{requests{3, 4}});
}

TEST_CASE("an idle worker that leaves is released at once") {
  queue_fixture f;
  f.up(first);
  f.queue.worker_leaves(first);
  f.look();
  CHECK(f.take<release_worker>().size() == 1);
}

TEST_CASE("a silent worker is treated as gone only if it is idle") {
  queue_fixture f;
  f.up(first);
  CHECK(f.ask(1));
  CHECK_FALSE(f.queue.worker_silent(first, f.now));
  f.piece(first, 1, 0, true);
  CHECK(f.queue.worker_silent(first, f.now));
  CHECK(f.queue.workers() == 0);
}
