// The quotas of a key, with a clock that is moved by hand.
#include "gateway/auth/authenticator.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::gateway;
using namespace std::chrono_literals;

namespace {

const quota_meter::instant quota_start{std::chrono::hours(1)};

std::string_view refusal_kind(quota_meter& m, quota_meter::instant now) {
  const auto no = m.begin(now);
  return no ? no->quota : std::string_view();
}

} // namespace

TEST_CASE("without quotas nothing is refused") {
  quota_meter m({}, quota_start);
  for (int i = 0; i < 10'000; ++i) {
    REQUIRE_FALSE(m.begin(quota_start));
    m.record_usage(1'000'000, quota_start);
  }
}

TEST_CASE("a minute's requests are available at once and return evenly") {
  quota_meter m({.requests_per_minute = 6}, quota_start);
  for (int i = 0; i < 6; ++i) {
    CHECK_FALSE(m.begin(quota_start));
  }
  const auto no = m.begin(quota_start);
  REQUIRE(no);
  CHECK(no->quota == "requests_per_minute");
  CHECK(no->limit == 6);
  CHECK(no->retry_after == 10s);
  CHECK(m.begin(quota_start + 9'999ms));
  CHECK_FALSE(m.begin(quota_start + 10s)); // at its retry time
  CHECK(m.begin(quota_start + 10s));
  for (int i = 0; i < 6; ++i) { // at most a minute's worth is kept
    CHECK_FALSE(m.begin(quota_start + 10min));
  }
  CHECK(m.begin(quota_start + 10min));
}

TEST_CASE("a refused request takes nothing") {
  quota_meter m({.requests_per_minute = 1, .concurrent_requests = 1}, quota_start);
  CHECK_FALSE(m.begin(quota_start));
  for (int i = 0; i < 5; ++i) {
    CHECK(refusal_kind(m, quota_start) == "concurrent_requests");
  }
  m.end();
  CHECK(refusal_kind(m, quota_start) == "requests_per_minute");
  CHECK_FALSE(m.begin(quota_start + 1min)); // not delayed by the refused ones
}

TEST_CASE("a slot is free again when its request has ended") {
  quota_meter m({.concurrent_requests = 2}, quota_start);
  CHECK_FALSE(m.begin(quota_start));
  CHECK_FALSE(m.begin(quota_start));
  CHECK(refusal_kind(m, quota_start) == "concurrent_requests");
  m.end();
  CHECK_FALSE(m.begin(quota_start));
  CHECK(refusal_kind(m, quota_start) == "concurrent_requests");
}

TEST_CASE("a client that resumes is not refused, but counted") {
  quota_meter m({.requests_per_minute = 1, .concurrent_requests = 1}, quota_start);
  CHECK_FALSE(m.begin(quota_start));
  m.begin_resumed();
  m.end();
  CHECK(refusal_kind(m, quota_start + 1min) == "concurrent_requests");
  m.end();
  CHECK_FALSE(m.begin(quota_start + 1min));
}

TEST_CASE("tokens are charged afterwards, and no request starts during a debt") {
  quota_meter m({.tokens_per_minute = 600}, quota_start);
  CHECK_FALSE(m.begin(quota_start));
  m.record_usage(900, quota_start); // 300 more than available
  const auto no = m.begin(quota_start);
  REQUIRE(no);
  CHECK(no->quota == "tokens_per_minute");
  CHECK(no->retry_after == 30'100ms); // 301 at 10 a second
  CHECK(m.begin(quota_start + 30s));
  CHECK_FALSE(m.begin(quota_start + 30'100ms));
}

TEST_CASE("a clock that goes back gives nothing") {
  quota_meter m({.requests_per_minute = 1}, quota_start);
  CHECK_FALSE(m.begin(quota_start));
  CHECK(m.begin(quota_start - 1h));
  CHECK(m.begin(quota_start + 59s));
  CHECK_FALSE(m.begin(quota_start + 60s));
}

TEST_CASE("changed quotas start now, and earlier usage stays") {
  quota_meter m({.requests_per_minute = 10, .tokens_per_minute = 100}, quota_start);
  for (int i = 0; i < 4; ++i) {
    CHECK_FALSE(m.begin(quota_start));
  }
  m.change({.requests_per_minute = 5}, quota_start);
  CHECK_FALSE(m.begin(quota_start));
  CHECK(refusal_kind(m, quota_start) == "requests_per_minute");
  m.change({.requests_per_minute = 7}, quota_start);
  CHECK_FALSE(m.begin(quota_start));
  CHECK_FALSE(m.begin(quota_start));
  CHECK(refusal_kind(m, quota_start) == "requests_per_minute");
  m.change({}, quota_start);
  CHECK_FALSE(m.begin(quota_start));
  m.change({.requests_per_minute = 2}, quota_start); // usage without a limit was not counted
  CHECK_FALSE(m.begin(quota_start));
  CHECK_FALSE(m.begin(quota_start));
  CHECK(m.begin(quota_start));
}
