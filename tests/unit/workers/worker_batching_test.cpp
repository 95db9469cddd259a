// Triton's dynamic batcher on the queue of a worker model: preferred sizes, priorities, and
// timeouts of waiting requests.
#include "tests/unit/workers/queue_fixture.hpp"

using namespace baton;
using namespace baton::tests;
using namespace std::chrono_literals;

namespace {

worker_limits with_levels(std::uint32_t levels, std::uint32_t otherwise) {
  worker_limits limits;
  limits.max_batch_delay = 0ms;
  limits.priority_levels = levels;
  limits.default_priority_level = otherwise;
  return limits;
}

// All batches of a worker that runs one after the other.
batches_of all_batches(queue_fixture& f, worker_incarnation w) {
  batches_of all;
  for (auto now = f.batches(); !now.empty(); now = f.batches()) {
    REQUIRE(now.size() == 1);
    for (const auto request : now[0])
      f.piece(w, request, 0, true);
    all.push_back(now[0]);
  }
  return all;
}

} // namespace

TEST_CASE("the largest preferred size possible starts at once, other sizes wait for it") {
  queue_fixture f({.batch_size = 8, .max_batch_delay = 50ms, .preferred_batch_sizes = {2, 4}});
  f.up(first);
  f.up(second);
  CHECK(f.ask(1));
  CHECK(f.batches().empty());
  CHECK(f.ask(2));
  CHECK(f.batches() == batches_of{requests{1, 2}});
  CHECK(f.ask(3));
  f.pass(49ms);
  CHECK(f.batches().empty());
  f.pass(1ms); // at its size
  CHECK(f.batches() == batches_of{requests{3}});
}

TEST_CASE(
    "of the requests that arrived while workers were busy, the largest preferred size starts") {
  queue_fixture f({.batch_size = 8, .max_batch_delay = 1h, .preferred_batch_sizes = {2, 4}});
  for (std::uint64_t r = 1; r <= 7; ++r)
    CHECK(f.ask(r));
  f.up(first);
  CHECK(f.batches() == batches_of{requests{1, 2, 3, 4}});
  f.up(second);
  CHECK(f.batches() == batches_of{requests{5, 6}});
  f.up({{103}, {1}});
  CHECK(f.batches().empty()); // 7 waits for another one
  CHECK(f.ask(8));
  CHECK(f.batches() == batches_of{requests{7, 8}});
}

TEST_CASE("a request that runs alone waits for no other, and no other joins it") {
  queue_fixture f({.batch_size = 4, .max_batch_delay = 1h});
  worker_queue::new_request alone{1, 10};
  alone.goes_alone = true;
  CHECK(f.enter(alone));
  CHECK(f.ask(2));
  alone.request = 3;
  CHECK(f.enter(alone));
  alone.request = 4;
  CHECK(f.enter(alone));
  CHECK(f.ask(5));
  f.up(first);
  for (const auto request : {1, 2, 3, 4}) {
    CHECK(f.batches() == batches_of{requests{static_cast<std::uint64_t>(request)}});
    f.piece(first, static_cast<std::uint64_t>(request), 0, true);
  }
  CHECK(f.batches().empty()); // 5 waits for others
  CHECK(f.ask(6));
  f.pass(1h);
  CHECK(f.batches() == batches_of{requests{5, 6}});
}

TEST_CASE("without a delay, a batch below the preferred sizes starts at its size") {
  queue_fixture f({.batch_size = 8, .max_batch_delay = 0ms, .preferred_batch_sizes = {4}});
  for (std::uint64_t r = 1; r <= 6; ++r)
    CHECK(f.ask(r));
  f.up(first);
  f.up(second);
  CHECK(f.batches() == batches_of{requests{1, 2, 3, 4}, requests{5, 6}});
}

TEST_CASE("a batch whose first request has waited long enough takes all, preferred or not") {
  queue_fixture f({.batch_size = 8, .max_batch_delay = 50ms, .preferred_batch_sizes = {2}});
  for (std::uint64_t r = 1; r <= 3; ++r)
    CHECK(f.ask(r));
  f.pass(50ms);
  f.up(first);
  CHECK(f.batches() == batches_of{requests{1, 2, 3}});
}

TEST_CASE("without preferred sizes, a full batch starts at once") {
  queue_fixture f({.batch_size = 3, .max_batch_delay = 1h, .preferred_batch_sizes = {}});
  f.up(first);
  for (std::uint64_t r = 1; r <= 3; ++r)
    CHECK(f.ask(r));
  CHECK(f.batches() == batches_of{requests{1, 2, 3}});
}

TEST_CASE("a batch that cannot grow does not wait for a preferred size") {
  queue_fixture f({.batch_size = 4, .max_batch_delay = 1h, .preferred_batch_sizes = {3}});
  f.up(first);
  CHECK(f.ask(1, limits::batch_bytes_max / 2));
  CHECK(f.ask(2, limits::batch_bytes_max / 2));
  CHECK(f.batches().empty());
  CHECK(f.ask(3, limits::batch_bytes_max / 2)); // does not fit into the message
  CHECK(f.batches() == batches_of{requests{1, 2}});
}

TEST_CASE("a higher priority goes first, equal ones in order of arrival") {
  queue_fixture f(with_levels(3, 2));
  CHECK(f.ask_at(3, 1));
  CHECK(f.ask_at(0, 2)); // the default: 2
  CHECK(f.ask_at(1, 3));
  CHECK(f.ask_at(2, 4));
  CHECK(f.ask_at(1, 5));
  f.up(first);
  CHECK(all_batches(f, first) ==
        batches_of{requests{3}, requests{5}, requests{2}, requests{4}, requests{1}});
}

TEST_CASE("levels share a batch, whose delay is that of its oldest request") {
  auto limits = with_levels(2, 2);
  limits.batch_size = 3;
  limits.max_batch_delay = 50ms;
  queue_fixture f(limits);
  f.up(first);
  CHECK(f.ask_at(2, 1));
  f.pass(30ms);
  CHECK(f.ask_at(1, 2));
  CHECK(f.queue.due() == f.now + 20ms);
  f.pass(20ms);
  CHECK(f.batches() == batches_of{requests{2, 1}});
}

TEST_CASE("a priority that the model does not have is refused by its name") {
  queue_fixture f(with_levels(2, 1));
  const auto refused = f.ask_at(3, 1);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::invalid_value);
  CHECK(refused.error().param == "priority");
  CHECK(queue_fixture().ask_at(1, 1).error().param == "priority");
  CHECK(f.queue.waiting() == 0);
}

TEST_CASE("a request that exceeds its level's timeout is refused, and runs in no batch") {
  worker_limits limits;
  limits.max_batch_delay = 0ms;
  limits.default_queue_policy.timeout = 1s;
  queue_fixture f(limits);
  CHECK(f.ask(1));
  f.pass(400ms);
  CHECK(f.ask(2));
  CHECK(f.queue.due() == f.now + 600ms); // also without a worker
  f.pass(600ms);
  CHECK(f.ends() == endings{{1, errc::queue_timeout}});
  f.now += 400ms; // no tick before the worker
  f.up(first);
  CHECK(f.ends() == endings{{2, errc::queue_timeout}});
  CHECK(f.ask(3));
  CHECK(f.batches() == batches_of{requests{3}});
  f.pass(2s); // running requests have left the queue
  CHECK(f.ends().empty());
}

TEST_CASE("a delayed request goes after the others of its level, and before lower levels") {
  auto limits = with_levels(2, 1);
  limits.priority_queue_policy[1] = {.timeout = 100ms, .is_delayed = true};
  queue_fixture f(limits);
  CHECK(f.ask_at(1, 1));
  CHECK(f.ask_at(2, 2));
  f.pass(100ms);
  CHECK(f.ask_at(1, 3));
  CHECK(f.ask_at(2, 4));
  CHECK(f.ends().empty());
  f.up(first);
  CHECK(all_batches(f, first) == batches_of{requests{3}, requests{1}, requests{2}, requests{4}});
}

TEST_CASE("a request may shorten its level's timeout if allowed, but never extend it") {
  worker_limits limits;
  limits.default_queue_policy = {.timeout = 1s, .allow_timeout_override = true};
  queue_fixture f(limits);
  CHECK(f.ask_at(0, 1, 200ms));
  CHECK(f.ask_at(0, 2, 5s));
  CHECK(f.ask_at(0, 3));
  f.pass(200ms);
  CHECK(f.ends() == endings{{1, errc::queue_timeout}});
  f.pass(800ms);
  CHECK(f.ends() == endings{{2, errc::queue_timeout}, {3, errc::queue_timeout}});
}

TEST_CASE("where the level has no timeout, a request may set one") {
  worker_limits limits;
  limits.default_queue_policy.allow_timeout_override = true;
  queue_fixture f(limits);
  CHECK(f.ask_at(0, 1, 500us));
  CHECK(f.ask_at(0, 2));
  f.pass(1ms);
  CHECK(f.ends() == endings{{1, errc::queue_timeout}});
  CHECK(f.queue.waiting() == 1);
}

TEST_CASE("a timeout that the level does not allow is refused by its name") {
  auto limits = with_levels(2, 1);
  limits.priority_queue_policy[1].allow_timeout_override = true;
  queue_fixture f(limits);
  CHECK(f.ask_at(1, 1, 1s));
  CHECK(f.ask_at(2, 2, 1s).error().param == "timeout");
  CHECK(f.ask_at(2, 2));
}

TEST_CASE("a level has its own limit, which counts delayed requests") {
  auto limits = with_levels(2, 2);
  limits.max_queued = 3;
  limits.priority_queue_policy[1] = {.timeout = 100ms, .is_delayed = true, .max_queue_size = 1};
  queue_fixture f(limits);
  CHECK(f.ask_at(1, 1));
  CHECK(f.ask_at(1, 2).error().code == errc::overloaded);
  f.pass(100ms);
  CHECK(f.ask_at(1, 2).error().code == errc::overloaded);
  CHECK(f.ask_at(2, 3));
  CHECK(f.ask_at(2, 4));
  CHECK(f.ask_at(2, 5).error().code == errc::overloaded); // max_queued in total
  f.queue.cancel(1, f.now);
  CHECK(f.ask_at(1, 6));
}

TEST_CASE("a request returned from a dead worker goes first, and is not refused for its wait") {
  auto limits = with_levels(2, 1);
  limits.default_queue_policy.timeout = 1s;
  queue_fixture f(limits);
  f.up(first);
  CHECK(f.ask_at(2, 1));
  CHECK(f.ask_at(1, 2));
  f.gone(first);
  f.pass(900ms);
  CHECK(f.ask_at(1, 3));
  f.pass(200ms);
  CHECK(f.ends() == endings{{2, errc::queue_timeout}});
  f.up(second);
  CHECK(all_batches(f, second) == batches_of{requests{1}, requests{3}});
}

TEST_CASE("a slot freed by a timeout is available to the next request") {
  worker_limits limits;
  limits.max_queued = 1;
  limits.default_queue_policy.timeout = 100ms;
  queue_fixture f(limits);
  CHECK(f.ask(1));
  f.now += 100ms; // no tick yet
  CHECK(f.ask(2));
  CHECK(f.ends() == endings{{1, errc::queue_timeout}});
}
