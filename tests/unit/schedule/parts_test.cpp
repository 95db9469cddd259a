// The parts of the scheduler, each without the others where it needs none.
#include "runtime/schedule/steps/flights.hpp"
#include "runtime/schedule/steps/suspects.hpp"
#include "runtime/schedule/tickets/ticket_table.hpp"
#include "tests/unit/schedule/fixture.hpp"

namespace baton::schedule {
namespace {

scheduler_context open_context(scheduler_config config = small_config()) {
  scheduler_context c{std::move(config), {}};
  c.pipeline.shape = small_shape;
  c.pipeline.epoch = c.pipeline.last_epoch = {1};
  return c;
}

const std::vector<token_id> five_ids(5, 11);

sequence& add_sequence(sequence_table& all, std::uint64_t ticket) {
  const service_order who{0, {{ticket}, 0}};
  sequence& s = all.try_emplace(who, who, five_ids, request_terms{}).first->second;
  all.update(s);
  return s;
}

TEST_CASE("the ticket table grants, counts and ends tickets without a sequence") {
  auto config = small_config();
  config.max_num_seqs = 1;
  config.max_num_queued_reqs = 1;
  const auto context = open_context(config);
  ticket_table tickets(context);
  const auto reserve = [&](std::uint64_t request) {
    return tickets.reserve({.request = request, .gateway = {7}, .model = "m", .choices = 1}, {});
  };
  const auto first = std::get<granted>(reserve(1)).ticket;
  CHECK(tickets.look_at_queue().tickets == 0); // there is a slot for it
  tickets.count_start(first);
  const auto second = std::get<granted>(reserve(2)).ticket;
  CHECK(tickets.look_at_queue().tickets == 1);
  CHECK(std::get<rejected>(reserve(3)).reason.code == errc::overloaded);
  CHECK(tickets.was_granted(second));
  CHECK_FALSE(tickets.was_granted({second.value + 1}));
  tickets.check_integrity({});

  tickets.at(first).choices_open = 0;
  tickets.end(first);
  CHECK_FALSE(tickets.contains(first));
  CHECK(tickets.was_granted(first));
  CHECK(tickets.granted_count() == 2);
  CHECK(tickets.ended_count() == 1);

  tickets.drain();
  CHECK(std::get<rejected>(reserve(4)).reason.code == errc::draining);
}

TEST_CASE("a step lands once; its late result counts until the next epoch opens") {
  auto context = open_context();
  sequence_table sequences(context);
  sequence& s = add_sequence(sequences, 1);
  flights all;
  all.add({1}).parts.push_back({.of = &s, .rows = 5, .samples = true, .drafts = 2});
  all.add({2}).copied.push_back(s.service_order());
  all.isolate();
  REQUIRE(all.take({2}).has_value());
  CHECK_FALSE(all.has_isolated());
  CHECK_FALSE(all.take({2}).has_value());

  all.add({3}).copied.push_back(s.service_order());
  all.close_epoch();
  CHECK(all.empty());
  CHECK_FALSE(all.take_late({3}).has_value()); // its copies are lost
  const auto late = all.take_late({1});
  REQUIRE(late.has_value());
  CHECK(late->front().rows == 3);
  CHECK(late->front().draws == 3);
  CHECK_FALSE(all.take_late({1}).has_value());

  all.add({4}).parts.push_back({.of = &s, .rows = 1});
  all.close_epoch();
  all.open_epoch();
  CHECK_FALSE(all.take_late({4}).has_value());
}

TEST_CASE("a suspect is isolated first, and blamed only if it was alone at the last death") {
  auto context = open_context();
  sequence_table sequences(context);
  sequence& a = add_sequence(sequences, 1);
  sequence& b = add_sequence(sequences, 2);
  suspects found;
  const auto death_of = [&](std::initializer_list<sequence*> in_flight, kv_fate kv) {
    for (const sequence* s : in_flight)
      found.note(s->service_order(), 0, 5);
    auto blamed = found.judge(kv, sequences);
    found.forget();
    return blamed;
  };
  CHECK(death_of({&a, &b}, kv_fate::lost).empty());
  CHECK(a.is_isolated);
  CHECK(b.is_isolated);
  CHECK(death_of({&a, &b}, kv_fate::lost).empty()); // twice, but not alone
  const auto blamed = death_of({&a}, kv_fate::lost);
  REQUIRE(blamed.size() == 1);
  CHECK(blamed.front() == &a);

  found.note(b.service_order(), 0, 5);
  found.clear(b.service_order(), 5); // all of its rows have passed
  CHECK(found.judge(kv_fate::lost, sequences).empty());
  CHECK(b.deaths == 2);
}

} // namespace
} // namespace baton::schedule
