// What a key may use, by a clock that is moved by hand.
#include "gateway/gate.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::gateway;
using namespace std::chrono_literals;

namespace {

const quota_meter::instant start{std::chrono::hours(1)};

std::string_view refusal(quota_meter& m, quota_meter::instant now) {
  const auto no = m.begin(now);
  return no ? no->quota : std::string_view();
}

} // namespace

TEST_CASE("without quotas nothing is refused") {
  quota_meter m({}, start);
  for (int i = 0; i < 10'000; ++i) {
    REQUIRE_FALSE(m.begin(start));
    m.spend(1'000'000, start);
  }
}

TEST_CASE("a minute's requests are there at once and come back evenly") {
  quota_meter m({.requests_per_minute = 6}, start);
  for (int i = 0; i < 6; ++i) {
    CHECK_FALSE(m.begin(start));
  }
  const auto no = m.begin(start);
  REQUIRE(no);
  CHECK(no->quota == "requests_per_minute");
  CHECK(no->limit == 6);
  CHECK(no->retry_after == 10s);
  CHECK(m.begin(start + 9'999ms));
  CHECK_FALSE(m.begin(start + 10s)); // when it was told to come
  CHECK(m.begin(start + 10s));
  for (int i = 0; i < 6; ++i) { // no more than a minute's worth is kept
    CHECK_FALSE(m.begin(start + 10min));
  }
  CHECK(m.begin(start + 10min));
}

TEST_CASE("what is refused takes nothing") {
  quota_meter m({.requests_per_minute = 1, .concurrent_requests = 1}, start);
  CHECK_FALSE(m.begin(start));
  for (int i = 0; i < 5; ++i) {
    CHECK(refusal(m, start) == "concurrent_requests");
  }
  m.end();
  CHECK(refusal(m, start) == "requests_per_minute");
  CHECK_FALSE(m.begin(start + 1min)); // not pushed away by those that were refused
}

TEST_CASE("a place is free again when its request has ended") {
  quota_meter m({.concurrent_requests = 2}, start);
  CHECK_FALSE(m.begin(start));
  CHECK_FALSE(m.begin(start));
  CHECK(refusal(m, start) == "concurrent_requests");
  m.end();
  CHECK_FALSE(m.begin(start));
  CHECK(refusal(m, start) == "concurrent_requests");
}

TEST_CASE("a client that comes back is not refused, but counted") {
  quota_meter m({.requests_per_minute = 1, .concurrent_requests = 1}, start);
  CHECK_FALSE(m.begin(start));
  m.begin_again();
  m.end();
  CHECK(refusal(m, start + 1min) == "concurrent_requests");
  m.end();
  CHECK_FALSE(m.begin(start + 1min));
}

TEST_CASE("tokens are owed, and until they are paid nothing begins") {
  quota_meter m({.tokens_per_minute = 600}, start);
  CHECK_FALSE(m.begin(start));
  m.spend(900, start); // 300 more than there were
  const auto no = m.begin(start);
  REQUIRE(no);
  CHECK(no->quota == "tokens_per_minute");
  CHECK(no->retry_after == 30'100ms); // 301 at 10 a second
  CHECK(m.begin(start + 30s));
  CHECK_FALSE(m.begin(start + 30'100ms));
}

TEST_CASE("time that goes back gives nothing") {
  quota_meter m({.requests_per_minute = 1}, start);
  CHECK_FALSE(m.begin(start));
  CHECK(m.begin(start - 1h));
  CHECK(m.begin(start + 59s));
  CHECK_FALSE(m.begin(start + 60s));
}

TEST_CASE("other quotas begin now, and what was used stays used") {
  quota_meter m({.requests_per_minute = 10, .tokens_per_minute = 100}, start);
  for (int i = 0; i < 4; ++i) {
    CHECK_FALSE(m.begin(start));
  }
  m.change({.requests_per_minute = 5}, start);
  CHECK_FALSE(m.begin(start));
  CHECK(refusal(m, start) == "requests_per_minute");
  m.change({.requests_per_minute = 7}, start);
  CHECK_FALSE(m.begin(start));
  CHECK_FALSE(m.begin(start));
  CHECK(refusal(m, start) == "requests_per_minute");
  m.change({}, start);
  CHECK_FALSE(m.begin(start));
  m.change({.requests_per_minute = 2}, start); // what had no bound was not counted
  CHECK_FALSE(m.begin(start));
  CHECK_FALSE(m.begin(start));
  CHECK(m.begin(start));
}
