#include "gateway/tracing/export_retry.hpp"

#include <doctest/doctest.h>

using namespace baton::gateway;
using namespace std::chrono_literals;

namespace {

constexpr export_retry::failure unreachable{};
constexpr export_retry::failure unanswered{.was_sent = true, .status = 0, .retry_after = {}};
export_retry::failure failed_with(int code, std::optional<std::chrono::milliseconds> wait = {}) {
  return {.was_sent = true, .status = code, .retry_after = wait};
}

} // namespace

TEST_CASE("a batch is retried only if the collector certainly did not accept it") {
  const export_retry::instant now{};
  CHECK(export_retry().failed(unreachable, now).is_kept);
  for (const int code : {429, 502, 503, 504})
    CHECK(export_retry().failed(failed_with(code), now).is_kept);
  CHECK_FALSE(export_retry().failed(unanswered, now).is_kept);
  for (const int code : {307, 400, 401, 404, 413, 500, 501})
    CHECK_FALSE(export_retry().failed(failed_with(code), now).is_kept);
}

TEST_CASE("pauses grow up to a limit, and restart after a success") {
  export_retry r;
  export_retry::instant now{};
  for (const auto expected : {1000ms, 2000ms, 4000ms, 8000ms, 16000ms, 30000ms, 30000ms})
    CHECK(r.failed(unanswered, now).pause == expected);
  CHECK(r.failures() == 7);
  r.taken();
  CHECK(r.failures() == 0);
  CHECK(r.failed(unanswered, now).pause == 1000ms);
}

TEST_CASE("a collector sets its own pause, within the limit") {
  const export_retry::instant now{};
  CHECK(export_retry().failed(failed_with(503, 7000ms), now).pause == 7000ms);
  CHECK(export_retry().failed(failed_with(429, 0ms), now).pause == export_retry::pause_min);
  CHECK(export_retry().failed(failed_with(503, 3600s), now).pause == export_retry::pause_max);
}

TEST_CASE("spans are retried for a minute, each batch for its own") {
  export_retry r;
  export_retry::instant now{};
  const auto begun = now;
  for (int batch = 0; batch < 2; ++batch) {
    auto v = r.failed(unreachable, now);
    const auto first = now;
    while (v.is_kept) {
      now += v.pause;
      REQUIRE(now - first <= export_retry::patience);
      v = r.failed(unreachable, now);
    }
    CHECK(now - first >= export_retry::patience - export_retry::pause_max);
    now += v.pause;
  }
  CHECK(now - begun > 60s);
}
