// Tickets: admission, refusals and their errors; every ticket ends once.
#include "tests/unit/schedule/fixture.hpp"

#include <functional>

using namespace baton;
using namespace baton::schedule;
using namespace std::chrono_literals;

TEST_CASE("tickets are granted up to slots and queue, then refused as overloaded") {
  fixture f; // 8 slots, 4 in the queue
  for (int i = 0; i < 12; ++i)
    f.grant();
  const auto answer = f.reserve();
  REQUIRE(std::holds_alternative<rejected>(answer));
  const auto& r = std::get<rejected>(answer);
  CHECK(r.reason.code == errc::overloaded);
  CHECK(r.retry_after == 1000ms);
  CHECK(r.queue_position == 4);
  CHECK(r.request == f.requests);
  CHECK_FALSE(r.ticket);
}

TEST_CASE("ticket numbers contain their pipeline, and grow over incarnations") {
  auto config = small_config();
  config.first_ticket = first_ticket_of(incarnation_id{1'000'000}, 5);
  config.ticket_step = pipelines_max;
  fixture f(config);
  const auto first = f.grant();
  CHECK(first.value <= 1'000'000 + pipelines_max);
  CHECK(pipeline_of(first) == 5);
  CHECK(f.grant() == ticket_id{first.value + pipelines_max});
  CHECK(first_ticket_of(incarnation_id{1'000'000 + 3 * pipelines_max}, 5) > f.grant());
  // The numbers between were granted by another one.
  f.s.admit(f.request(ticket_id{first.value + 1}));
  REQUIRE(f.s.take().refusals.size() == 1);
  f.s.cancel({.ticket = first, .choice = {}, .reason = {}});
  static_cast<void>(f.s.take());
  f.s.admit(f.request(first)); // ours, and finished
  CHECK(f.s.take().refusals.empty());
}

TEST_CASE("the queue is bounded by tokens and by tickets") {
  fixture f;
  for (int i = 0; i < 8; ++i)
    f.grant(1, 5000); // these have slots, which the limit does not count
  f.grant(1, 600);
  f.grant(1, 400);
  CHECK(f.refused(1, 1) == errc::overloaded);
}

TEST_CASE("a ticket admitted by another pipeline is refused for neither load nor drain, but for "
          "other errors") {
  baton::reserve moved{.request = 99, .gateway = {7}, .model = "m", .tokens_estimate = 5000};
  moved.was_admitted = true;
  auto config = small_config();
  SUBCASE("queue full") {}
  SUBCASE("slots full") {
    config.use_job_ticket = true;
  }
  fixture f(config);
  for (int i = 0; i < 8; ++i)
    f.grant();
  for (int i = 0; i < 8; ++i)
    CHECK(std::holds_alternative<granted>(f.s.reserve(moved, f.now)));
  CHECK(f.refused() == (config.use_job_ticket ? errc::no_job_ticket : errc::overloaded));
  f.s.drain();
  CHECK(std::holds_alternative<granted>(f.s.reserve(moved, f.now)));
  scheduler never_opened(config);
  const auto no = never_opened.reserve(moved, f.now);
  REQUIRE(std::holds_alternative<rejected>(no));
  CHECK(std::get<rejected>(no).reason.code == errc::not_ready);
}

TEST_CASE("several choices need several slots") {
  fixture f;
  f.grant(5);
  f.grant(4); // queued
  for (int i = 0; i < 3; ++i)
    f.grant(); // after it, although slots are left
  CHECK(f.refused() == errc::overloaded);
}

TEST_CASE("in job-ticket mode there is no queue") {
  auto config = small_config();
  config.use_job_ticket = true;
  fixture f(config);
  f.grant(7);
  CHECK(f.refused(2) == errc::no_job_ticket);
  const auto last = f.grant();
  CHECK(f.refused() == errc::no_job_ticket);
  f.s.cancel({.ticket = last, .choice = {}, .reason = {}});
  f.grant();
  CHECK(f.refused(9) == errc::invalid_value);
}

TEST_CASE("impossible numbers of choices, a drain and a missing pipeline are refused by name") {
  fixture f;
  CHECK(f.refused(0) == errc::invalid_value);
  CHECK(f.refused(choices_max + 1) == errc::invalid_value);
  f.s.drain();
  CHECK(f.refused() == errc::draining);
  scheduler never_opened(small_config());
  const auto answer = never_opened.reserve({.request = 1, .gateway = {7}, .model = "m"}, f.now);
  REQUIRE(std::holds_alternative<rejected>(answer));
  CHECK(std::get<rejected>(answer).reason.code == errc::not_ready);
}

TEST_CASE("impossible requests are refused by number, and their ticket ends") {
  const std::vector<std::tuple<const char*, errc, std::function<void(admit&)>>> rows = {
      {"empty prompt", errc::invalid_value, [](auto& a) { a.prompt_ids.clear(); }},
      {"prompt fills the context", errc::context_length_exceeded,
       [](auto& a) { a.prompt_ids.assign(64, 1); }},
      {"prompt and output pass the context", errc::context_length_exceeded,
       [](auto& a) { a.terms.stop.max_tokens = 60; }},
      {"no tokens wanted", errc::invalid_value, [](auto& a) { a.terms.stop.max_tokens = 0; }},
      {"tokens_max overflows", errc::context_length_exceeded,
       [](auto& a) { a.terms.stop.max_tokens = ~0u; }},
      {"negative id", errc::invalid_value, [](auto& a) { a.prompt_ids[2] = -1; }},
      {"unknown id", errc::invalid_value, [](auto& a) { a.prompt_ids[2] = 100; }},
      {"unknown stop id", errc::invalid_value, [](auto& a) { a.terms.stop.stop_ids = {100}; }},
      {"unknown bias", errc::invalid_value,
       [](auto& a) {
         a.terms.sampling.biases = {{100, 1}};
       }},
      {"choices changed", errc::invalid_value, [](auto& a) { a.terms.choices = 2; }},
  };
  for (const auto& [what, code, change] : rows) {
    CAPTURE(what);
    fixture f;
    const auto ticket = f.grant();
    auto request = f.request(ticket);
    change(request);
    f.s.admit(request);
    const auto out = f.s.take();
    CHECK(out.tokens.empty());
    REQUIRE(out.refusals.size() == 1);
    CHECK(out.refusals[0].gateway == process_id{7});
    CHECK(out.refusals[0].message.ticket == ticket);
    CHECK(out.refusals[0].message.request == f.requests);
    CHECK(out.refusals[0].message.reason.code == code);
    f.check_at_rest();
  }
}

TEST_CASE("a prompt larger than all blocks is refused, one that just fits is served") {
  fixture f(small_config(), {.stages = 1, .blocks = 3, .block_positions = 4});
  f.start(13);
  auto out = f.s.take();
  REQUIRE(out.refusals.size() == 1);
  CHECK(out.refusals[0].message.reason.code == errc::context_length_exceeded);
  f.start(12, 10);
  f.run_all();
  out = f.s.take();
  REQUIRE(out.tokens.size() == 1); // the 13th position has no room: it ends there
  CHECK(out.tokens[0].finish == finish::length);
  CHECK(out.tokens[0].tokens_total == 1);
  f.check_at_rest();
}

TEST_CASE("without max_tokens the context is the limit") {
  fixture f;
  const auto ticket = f.grant();
  auto request = f.request(ticket, 60);
  request.terms.max_tokens_given = false;
  request.terms.stop.max_tokens = 1;
  request.continues_prompt = true;
  f.s.admit(request);
  f.run_all();
  const auto out = f.s.take();
  REQUIRE(out.tokens.size() == 4);
  CHECK(out.tokens[0].continues_prompt);
  CHECK(out.tokens[0].begins);
  CHECK(out.tokens[0].prompt_tokens == 60);
  CHECK(out.tokens[0].stopping.max_tokens == 4);
  CHECK(out.tokens[3].finish == finish::length);
  CHECK(out.tokens[3].tokens_total == 4);
}

TEST_CASE("a ticket that is never used expires") {
  fixture f;
  f.grant();
  f.now += 9'999ms;
  f.s.tick(f.now);
  CHECK(f.s.take().refusals.empty());
  f.now += 1ms;
  f.s.tick(f.now);
  const auto out = f.s.take();
  REQUIRE(out.refusals.size() == 1);
  CHECK(out.refusals[0].message.reason.code == errc::queue_timeout);
  f.check_at_rest();
}

TEST_CASE("deadlines end waiting tickets with queue_timeout, running ones with deadline_exceeded") {
  auto config = small_config();
  config.max_num_seqs = 1;
  fixture f(config);
  const auto ticket = f.grant();
  auto request = f.request(ticket);
  request.terms.deadline = 50ms; // counted from the ticket
  f.now += 20ms;
  f.s.admit(request);
  SUBCASE("running, tokens out") {
    f.answer(f.next());
    f.now += 29ms;
    f.s.tick(f.now);
    CHECK(f.s.take().tokens.size() == 1);
    f.now += 1ms;
    f.s.tick(f.now);
    const auto out = f.s.take();
    REQUIRE(out.tokens.size() == 1);
    CHECK(out.tokens[0].finish == finish::failed);
    CHECK(out.tokens[0].failure->code == errc::deadline_exceeded);
    CHECK(out.tokens[0].tokens_total == 1);
  }
  SUBCASE("running, nothing out yet") {
    const auto batch = f.next();
    f.now += 29ms;
    f.s.tick(f.now);
    CHECK(f.s.take().refusals.empty());
    f.now += 1ms;
    f.s.tick(f.now);
    const auto out = f.s.take();
    REQUIRE(out.refusals.size() == 1);
    CHECK(out.refusals[0].message.reason.code == errc::deadline_exceeded);
    CHECK(f.s.load().blocks_used > 0); // still in flight
    f.answer(batch);
    CHECK(f.s.take().tokens.empty());
  }
  SUBCASE("waiting") {
    f.now += 29ms;
    f.s.tick(f.now);
    CHECK(f.s.take().refusals.empty());
    f.now += 1ms;
    f.s.tick(f.now);
    const auto out = f.s.take();
    REQUIRE(out.refusals.size() == 1);
    CHECK(out.refusals[0].message.reason.code == errc::queue_timeout);
  }
  f.check_at_rest();
}

TEST_CASE("the queue has its own timeout, which does not affect running sequences") {
  auto config = small_config();
  config.max_num_seqs = 1;
  fixture f(config);
  const auto running = f.start();
  const auto waiting = f.start();
  f.answer(f.next());
  f.now += 60s;
  f.s.tick(f.now);
  const auto out = f.s.take();
  REQUIRE(out.refusals.size() == 1);
  CHECK(out.refusals[0].message.ticket == waiting);
  CHECK(out.refusals[0].message.retry_after == 1000ms);
  REQUIRE(out.tokens.size() == 1);
  CHECK(out.tokens[0].ticket == running);
  f.run_all();
  f.check_at_rest();
}

TEST_CASE("a cancel frees the blocks at once, or when the step in flight returns") {
  fixture f;
  const auto ticket = f.start();
  const auto batch = f.next();
  f.answer(batch);
  SUBCASE("nothing in flight") {
    f.s.cancel({.ticket = ticket, .choice = {}, .why = cancel_reason::client_gone, .reason = {}});
    CHECK(f.s.load().blocks_used == 0);
  }
  SUBCASE("a step in flight") {
    const auto second = f.next();
    f.s.cancel({.ticket = ticket, .choice = {}, .why = cancel_reason::client_gone, .reason = {}});
    f.s.check_integrity();
    CHECK(f.s.load().blocks_used > 0);
    f.answer(second);
  }
  const auto out = f.s.take();
  REQUIRE(out.tokens.size() == 2);
  CHECK(out.tokens[1].finish == finish::cancelled);
  CHECK(out.tokens[1].failure->code == errc::cancelled);
  CHECK(out.tokens[1].samples.empty());
  f.s.cancel({.ticket = ticket, .choice = {}, .reason = {}});
  CHECK(f.s.take().tokens.empty());
  f.check_at_rest();
}

TEST_CASE("each reason to cancel has its finish and its error") {
  const std::tuple<cancel_reason, finish, errc> rows[] = {
      {cancel_reason::client_gone, finish::cancelled, errc::cancelled},
      {cancel_reason::client_asked, finish::cancelled, errc::cancelled},
      {cancel_reason::slow_reader, finish::cancelled, errc::slow_reader},
      {cancel_reason::deadline, finish::failed, errc::deadline_exceeded},
      {cancel_reason::draining, finish::failed, errc::draining}};
  for (const auto& [why, how, code] : rows) {
    fixture f;
    const auto ticket = f.start();
    f.answer(f.next());
    f.s.cancel({.ticket = ticket, .choice = {}, .why = why, .reason = {}});
    const auto out = f.s.take();
    REQUIRE(out.tokens.size() == 2);
    CHECK(out.tokens[1].finish == how);
    REQUIRE(out.tokens[1].failure);
    CHECK(out.tokens[1].failure->code == code);
    f.check_at_rest();
  }
}

TEST_CASE("a request refused by the tokenizer ends with its reason") {
  fixture f;
  const auto ticket = f.grant();
  f.s.cancel({.ticket = ticket,
              .choice = {},
              .why = cancel_reason::refused,
              .reason = error{errc::template_failed, "no such role", "messages"}});
  const auto out = f.s.take();
  REQUIRE(out.refusals.size() == 1);
  CHECK(out.refusals[0].message.reason == error{errc::template_failed, "no such role", "messages"});
  f.check_at_rest();
}

TEST_CASE("an admit after the ticket's end is dropped, one of another incarnation is refused") {
  fixture f;
  const auto ticket = f.grant();
  f.s.cancel({.ticket = ticket, .choice = {}, .reason = {}});
  (void)f.s.take();
  f.s.admit(f.request(ticket));
  CHECK(f.s.take().refusals.empty());
  f.s.admit(f.request({999}));
  const auto out = f.s.take();
  REQUIRE(out.refusals.size() == 1);
  CHECK(out.refusals[0].message.reason.code == errc::ticket_not_found);
  f.check_at_rest();
}

TEST_CASE("a duplicate admit is accepted once") {
  fixture f;
  const auto ticket = f.grant();
  f.s.admit(f.request(ticket));
  f.s.admit(f.request(ticket));
  f.run_all();
  CHECK(f.s.take().tokens.size() == 10);
  f.check_at_rest();
}

TEST_CASE("a stop text found by the detokenizer is an ordinary end and keeps the tokens") {
  fixture f;
  const auto ticket = f.start();
  for (int i = 0; i < 4; ++i)
    f.answer(f.next());
  f.s.cancel({.ticket = ticket,
              .choice = 0,
              .why = cancel_reason::stop_text,
              .tokens_kept = 3,
              .reason = {}});
  const auto out = f.s.take();
  REQUIRE(out.tokens.size() == 5);
  CHECK(out.tokens[4].finish == finish::stop);
  CHECK(out.tokens[4].tokens_total == 3);
  CHECK_FALSE(out.tokens[4].failure);
  f.check_at_rest();
}

TEST_CASE("several choices run as separate sequences and end one by one") {
  fixture f;
  const auto ticket = f.grant(3);
  auto request = f.request(ticket, 5, 2);
  request.terms.choices = 3;
  request.terms.sampling.seed = 40;
  f.s.admit(request);
  const auto batch = f.next();
  REQUIRE(batch.draws.size() == 3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    CHECK(batch.slices[i].sequence == sequence_id{ticket, i});
    CHECK(batch.draws[i].sampling.seed == 40 + i);
  }
  f.answer(batch);
  f.s.cancel({.ticket = ticket, .choice = 1, .why = cancel_reason::client_asked, .reason = {}});
  CHECK_FALSE(f.s.is_idle());
  f.run_all();
  const auto out = f.s.take();
  int ends[3] = {}, begins[3] = {};
  for (const auto& m : out.tokens) {
    ends[m.choice] += m.finish != finish::none;
    begins[m.choice] += m.begins;
    CHECK(m.prompt_tokens == (m.begins ? 5 : 0));
  }
  for (int i = 0; i < 3; ++i) {
    CHECK(ends[i] == 1);
    CHECK(begins[i] == 1);
  }
  CHECK(f.s.load().prompt_tokens == 5);
  CHECK(f.s.load().output_tokens == 5);
  f.check_at_rest();
}

TEST_CASE("draining finishes the accepted requests") {
  fixture f;
  f.start();
  const auto late = f.grant();
  f.s.drain();
  f.s.admit(f.request(late));
  f.run_all();
  CHECK(f.s.take().tokens.size() == 20);
  f.check_at_rest();
}
