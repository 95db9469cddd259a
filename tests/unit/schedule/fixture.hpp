// A scheduler with an open epoch, short forms of requests, and results of its steps that the test
// chooses in place of an engine.
#pragma once

#include "runtime/schedule/scheduler.hpp"

#include <doctest/doctest.h>

namespace baton::schedule {

inline constexpr std::size_t long_prompt = 40; // three chunks of at most 16

inline scheduler_config small_config() {
  scheduler_config c;
  c.max_num_seqs = 8;
  c.max_num_batched_tokens = 32;
  c.prefill_chunk = 16;
  c.max_model_len = 64;
  c.vocabulary_size = 100;
  c.max_num_queued_reqs = 4;
  c.max_num_queued_tokens = 1000;
  c.eos_ids = {2};
  c.enable_prefix_caching = false; // the prompts here are all alike
  c.async_scheduling = false;      // run_ahead_test.cpp covers it
  return c;
}

inline constexpr pipeline_shape small_shape{.stages = 2, .blocks = 64, .block_positions = 4};

struct fixture {
  explicit fixture(scheduler_config config = small_config(), pipeline_shape shape = small_shape)
      : s(std::move(config)) {
    s.open_epoch({1}, shape);
  }

  std::variant<granted, rejected> reserve(std::uint32_t choices = 1, std::uint32_t estimate = 10,
                                          std::int32_t priority = 0) {
    return s.reserve({.request = ++requests,
                      .gateway = {7},
                      .model = "m",
                      .choices = choices,
                      .tokens_estimate = estimate,
                      .priority = priority},
                     now);
  }
  ticket_id grant(std::uint32_t choices = 1, std::uint32_t estimate = 10,
                  std::int32_t priority = 0) {
    const auto answer = reserve(choices, estimate, priority);
    REQUIRE(std::holds_alternative<granted>(answer));
    return std::get<granted>(answer).ticket;
  }
  errc refused(std::uint32_t choices = 1, std::uint32_t estimate = 10) {
    const auto answer = reserve(choices, estimate);
    REQUIRE(std::holds_alternative<rejected>(answer));
    return std::get<rejected>(answer).reason.code;
  }
  baton::admit request(ticket_id ticket, std::size_t prompt = 5, std::uint32_t max_tokens = 10) {
    baton::admit a;
    a.request = requests;
    a.gateway = {7};
    a.ticket = ticket;
    a.prompt_ids.assign(prompt, 11);
    a.terms.max_tokens_given = true;
    a.terms.stop.max_tokens = max_tokens;
    return a;
  }
  ticket_id start(std::size_t prompt = 5, std::uint32_t max_tokens = 10,
                  std::int32_t priority = 0) {
    const ticket_id ticket = grant(1, 10, priority);
    s.admit(request(ticket, prompt, max_tokens));
    s.check_integrity();
    return ticket;
  }

  micro_batch next() {
    auto batch = s.next();
    s.check_integrity();
    REQUIRE(batch.has_value());
    return *batch;
  }
  void answer(const micro_batch& batch, token_id token = 5) {
    sampled step;
    step.batch = batch.batch;
    step.epoch = batch.epoch;
    step.samples.resize(batch.draws.size());
    for (sample& drawn : step.samples)
      drawn.token = token;
    s.on_sampled(step);
    s.check_integrity();
  }
  void answer_failure(const micro_batch& batch, errc code = errc::internal) {
    sampled step;
    step.batch = batch.batch;
    step.epoch = batch.epoch;
    step.failure = error{code, "broken", {}};
    s.on_sampled(step);
    s.check_integrity();
  }
  // Runs steps one at a time until there are none.
  int run_all(token_id token = 5) {
    int steps = 0;
    while (auto batch = s.next()) {
      answer(*batch, token);
      ++steps;
    }
    return steps;
  }
  void check_at_rest() {
    CHECK(s.is_idle());
    CHECK(s.load().blocks_used == 0);
    CHECK(s.counted().tickets_granted == s.counted().tickets_ended);
    s.check_integrity();
  }

  scheduler s;
  time_point now{};
  std::uint64_t requests = 0;
};

} // namespace baton::schedule
