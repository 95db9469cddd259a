// The rules of the request tracker, without an actor.
#include "gateway/dispatch/request_tracker.hpp"
#include "schema/digest.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::gateway;
using namespace std::chrono_literals;

namespace {

struct request_tracker_world {
  gateway_state facts{gateway_config{}};
  time_point begin = time_point(1h);
  open_entry entry;

  explicit request_tracker_world(generate request) {
    auto out = std::make_shared<stream>(1, 1 << 20, nullptr);
    open_generate asked{out, std::move(request)};
    entry = entry_of(asked, 100);
    entry.opened_at = begin;
    entry.granted_at = begin + 200ms;
  }
  void chunk(std::chrono::milliseconds at, std::uint32_t choice, std::uint32_t count,
             finish how = finish::none) {
    baton::chunk c;
    c.choice = choice;
    c.count = count;
    c.index = entry.delivered[choice] + count;
    c.output_tokens = c.index;
    c.prompt_tokens = 40;
    c.finish = how;
    if (how != finish::none) {
      c.prepare_micros = 50'000;
      c.queue_micros = 300'000;
    }
    record_tokens(facts.metrics(), 0, entry, c, begin + at);
    take_in(entry, c);
  }
};

generate request_for(std::uint32_t choices, std::uint32_t max_tokens) {
  generate g;
  g.model = "m";
  g.terms.choices = choices;
  g.terms.max_tokens_given = max_tokens > 0;
  g.terms.stop.max_tokens = max_tokens;
  return g;
}

} // namespace

TEST_CASE("the summary of a request has its phases, its tokens and its parameters") {
  request_tracker_world w(request_for(2, 16));
  w.chunk(1000ms, 0, 1);
  w.chunk(1500ms, 1, 2, finish::stop);
  w.chunk(2500ms, 0, 4, finish::length);
  const auto r = ended_as(w.entry, finish::length, w.begin + 2600ms, 100);
  CHECK(r.seconds == doctest::Approx(2.6));
  CHECK(r.queue_seconds == doctest::Approx(0.5)); // for its ticket, and for its first step
  CHECK(r.prepare_seconds == doctest::Approx(0.05));
  CHECK(r.first_token_seconds.value() == doctest::Approx(1.0));
  CHECK(r.last_token_seconds.value() == doctest::Approx(2.5));
  CHECK(r.prompt_tokens == 40);
  CHECK(r.output_tokens == 7);
  CHECK(r.longest_output_tokens == 5);
  CHECK(r.choices == 2);
  CHECK(r.max_tokens.value() == 16);
}

TEST_CASE("unknown values of a request are absent") {
  request_tracker_world all(request_for(1, 0));
  all.chunk(1000ms, 0, 0, finish::failed);
  auto r = ended_as(all.entry, finish::failed, all.begin + 1s, 100);
  CHECK_FALSE(r.first_token_seconds);
  CHECK(r.max_tokens.value() == 60); // the rest of the context
  CHECK_FALSE(ended_as(all.entry, finish::failed, all.begin + 1s, 0).max_tokens);
  all.entry.submit.terms.wants_embedding = true;
  CHECK_FALSE(ended_as(all.entry, finish::failed, all.begin + 1s, 100).max_tokens);
  CHECK(ended_as(all.entry, finish::failed, all.begin + 1s, 100).queue_seconds > 0.4);
  all.entry.granted_at.reset(); // it was granted to another incarnation of the gateway
  all.entry.has_request = false;
  r = ended_as(all.entry, finish::failed, all.begin + 1s, 100);
  CHECK(r.queue_seconds + r.prepare_seconds == 0);
  CHECK(r.choices == 0);
  CHECK_FALSE(r.max_tokens);
}

TEST_CASE("a head that lost its log receives the same request, with its template time") {
  auto asked = request_for(1, 4);
  asked.tools = "[]";
  asked.template_options = {R"({"a":1})", R"([{"text":"b"}])", true, 1'772'530'200};
  const auto options = asked.template_options;
  request_tracker_world w(std::move(asked));
  CHECK(w.entry.submit.template_options == options);
  const auto again = replay(w.entry, w.begin + 1h);
  CHECK(again.template_options == options);
  CHECK(again.tools == "[]");
}

TEST_CASE("a named request that is repeated later is the same one") {
  auto asked = request_for(1, 4);
  asked.request_id = "a";
  asked.template_options.local_seconds = 1;
  auto later = asked;
  later.template_options.local_seconds = 2;
  CHECK(digest_of(asked, true) == digest_of(later, true));
  later.template_options.kwargs = R"({"a":1})";
  CHECK_FALSE(digest_of(asked, true) == digest_of(later, true));
}

TEST_CASE("the sooner of two deadlines applies, and none is no deadline") {
  CHECK(sooner(0ms, 0ms) == 0ms);
  CHECK(sooner(5ms, 0ms) == 5ms);
  CHECK(sooner(0ms, 7ms) == 7ms);
  CHECK(sooner(5ms, 7ms) == 5ms);
  CHECK(sooner(9ms, 7ms) == 7ms); // a client cannot exceed the operator's limit
}
