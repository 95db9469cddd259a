// scheduling_policy "priority": the request's number, then arrival, decides the order of starts,
// rows and preemption. "fcfs" accepts no numbers.
#include "tests/unit/schedule/fixture.hpp"

using namespace baton;
using namespace baton::schedule;

namespace {

scheduler_config by_priority() {
  auto c = small_config();
  c.scheduling_policy = scheduling_policy::priority;
  return c;
}

std::vector<ticket_id> order_of(const micro_batch& batch) {
  std::vector<ticket_id> order;
  for (const slice& s : batch.slices)
    order.push_back(s.sequence.ticket);
  return order;
}

std::vector<ticket_id> finished(scheduler& s) {
  std::vector<ticket_id> all;
  for (const auto& m : s.take().tokens)
    if (m.finish != finish::none)
      all.push_back(m.ticket);
  return all;
}

} // namespace

TEST_CASE("a priority is refused by name under fcfs") {
  fixture f;
  const auto answer = f.reserve(1, 10, -1);
  REQUIRE(std::holds_alternative<rejected>(answer));
  const error& why = std::get<rejected>(answer).reason;
  CHECK(why.code == errc::invalid_value);
  CHECK(why.param == "priority");
  CHECK(why.message.find("model.scheduling_policy") != std::string::npos);
  CHECK(std::holds_alternative<granted>(f.reserve(1, 10, 0)));
}

TEST_CASE("prompt rows are ordered by priority, then by arrival") {
  fixture f(by_priority());
  const auto late = f.start(5, 10, 3);
  const auto first = f.start(5, 10, -1);
  const auto second = f.start(5, 10, -1);
  CHECK(order_of(f.next()) == std::vector<ticket_id>{first, second, late});
}

TEST_CASE("a freed slot goes to the lowest number, whatever its arrival") {
  auto config = by_priority();
  config.max_num_seqs = 1;
  fixture f(config);
  const auto running = f.start(5, 1, 0);
  const auto batch = f.next();
  const auto equal = f.start(5, 1, 0);
  const auto later = f.start(5, 1, 7);
  f.answer(batch);
  f.run_all();
  CHECK(finished(f.s) == std::vector<ticket_id>{running, equal, later});
  f.check_at_rest();
}

TEST_CASE("a slot is taken from a lower priority, which continues later") {
  auto config = by_priority();
  config.max_num_seqs = 2;
  fixture f(config);
  const auto low = f.start(5, 4, 5);
  const auto middle = f.start(5, 4, 1);
  f.answer(f.next());
  const auto high = f.start(5, 4, 0);
  const auto batch = f.next();
  CHECK(order_of(batch) == std::vector<ticket_id>{middle, high});
  CHECK(f.s.load().preemptions == 1);
  f.answer(batch);
  f.run_all();
  CHECK(finished(f.s) == std::vector<ticket_id>{middle, high, low});
  CHECK(f.s.load().output_tokens == 12);
  f.check_at_rest();
}

TEST_CASE("equal priorities preempt nothing from one another") {
  auto config = by_priority();
  config.max_num_seqs = 1;
  fixture f(config);
  f.start(5, 4, 2);
  f.answer(f.next());
  f.start(5, 4, 2);
  f.run_all();
  CHECK(f.s.load().preemptions == 0);
  f.check_at_rest();
}

TEST_CASE("blocks are taken from the last sequences of lower priority, as many as needed") {
  // 16 positions for each of three, 3 of 15 blocks left, the watermark is one.
  fixture f(by_priority(), {.stages = 1, .blocks = 15, .block_positions = 4});
  f.start(16, 20, 0);
  const auto last = f.start(16, 20, 2);
  const auto less = f.start(16, 20, 1);
  while (f.s.load().output_tokens < 3)
    f.answer(f.next());
  const auto high = f.start(16, 4, -1);
  const auto batch = f.next();
  CHECK(f.s.load().preemptions == 1);
  const auto order = order_of(batch);
  CHECK(std::find(order.begin(), order.end(), high) != order.end());
  CHECK(std::find(order.begin(), order.end(), last) == order.end());
  CHECK(std::find(order.begin(), order.end(), less) != order.end());
}

TEST_CASE("nothing is preempted for a request that would not fit anyway") {
  fixture f(by_priority(), {.stages = 1, .blocks = 16, .block_positions = 4});
  f.start(36, 20, 0);
  f.start(8, 20, 3);
  while (f.s.load().output_tokens < 2)
    f.answer(f.next());
  f.start(40, 4, -1); // needs the blocks of both
  f.answer(f.next());
  CHECK(f.s.load().preemptions == 2);
  CHECK(f.s.load().running == 1);

  fixture g(by_priority(), {.stages = 1, .blocks = 16, .block_positions = 4});
  g.start(36, 20, -1);
  g.start(8, 20, 3);
  while (g.s.load().output_tokens < 2)
    g.answer(g.next());
  g.start(40, 4, 0); // the blocks of the second are not enough
  g.answer(g.next());
  CHECK(g.s.load().preemptions == 0);
  CHECK(g.s.load().running == 2);
}

TEST_CASE("a decode that needs a block takes it from the highest number, then the youngest") {
  fixture f(by_priority(), {.stages = 1, .blocks = 6, .block_positions = 4});
  const auto high = f.start(7, 9, 0);
  const auto low = f.start(7, 9, 1);
  const auto equal = f.start(3, 9, 0);
  f.run_all();
  CHECK(f.s.load().preemptions > 0);
  const auto ends = finished(f.s);
  REQUIRE(ends.size() == 3);
  CHECK(ends.back() == low);
  CHECK(std::find(ends.begin(), ends.end(), high) < std::find(ends.begin(), ends.end(), low));
  CHECK(std::find(ends.begin(), ends.end(), equal) < std::find(ends.begin(), ends.end(), low));
  f.check_at_rest();
}

TEST_CASE("admission counts only the requests before it: slots and position, but one queue limit "
          "for all") {
  auto config = by_priority();
  config.max_num_seqs = 2;
  config.max_num_queued_reqs = 2;
  fixture f(config);
  f.grant(1, 10, 1);
  f.grant(1, 10, 1); // both slots
  f.grant(1, 10, 2);
  f.grant(1, 10, 2); // the queue is full
  const auto full = f.reserve(1, 10, 2);
  REQUIRE(std::holds_alternative<rejected>(full));
  CHECK(std::get<rejected>(full).reason.code == errc::overloaded);
  CHECK(std::get<rejected>(full).queue_position == 2);
  const auto beside = f.reserve(1, 10, 1); // only the slots before it, none in the queue
  REQUIRE(std::holds_alternative<rejected>(beside));
  CHECK(std::get<rejected>(beside).queue_position == 0);
  CHECK(std::holds_alternative<granted>(f.reserve(1, 10, 0))); // takes the slots of the others
}

TEST_CASE("a job ticket is granted where a slot can be taken") {
  auto config = by_priority();
  config.max_num_seqs = 1;
  config.use_job_ticket = true;
  fixture f(config);
  f.start(5, 4, 1);
  f.answer(f.next());
  const auto equal = f.reserve(1, 10, 1);
  REQUIRE(std::holds_alternative<rejected>(equal));
  CHECK(std::get<rejected>(equal).reason.code == errc::no_job_ticket);
  f.start(5, 4, 0);
  f.run_all();
  f.check_at_rest();
}
