// What becomes of spans that a collector did not take, and when it is asked again
// (https://opentelemetry.io/docs/specs/otlp/#otlphttp, "Failures"). Pure: time is given.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace baton::gateway {

class export_retry {
public:
  using instant = std::chrono::steady_clock::time_point;
  using milliseconds = std::chrono::milliseconds;

  static constexpr milliseconds pause_min{1'000}; // after a failure, doubled with each
  static constexpr milliseconds pause_max{30'000};
  // Spans that are tried for longer are dropped: what is newer is worth more.
  static constexpr milliseconds patience{60'000};

  struct failure {
    // Something was: unless its answer says otherwise it may have been taken, and is not sent
    // twice.
    bool was_sent = false;
    int status = 0;                          // of HTTP; 0: there was no answer
    std::optional<milliseconds> retry_after; // as the answer asks for
  };
  struct verdict {
    bool is_kept = false; // the same spans are sent again
    milliseconds pause{0};
  };
  verdict failed(const failure& f, instant now);
  void taken();
  // In a row.
  std::uint32_t failures() const noexcept { return failures_; }

private:
  std::uint32_t failures_ = 0;
  std::optional<instant> since_; // when these spans were first sent
};

} // namespace baton::gateway
