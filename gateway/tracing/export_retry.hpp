// Decides whether and when to send spans again that a collector did not take
// (https://opentelemetry.io/docs/specs/otlp/#otlphttp, "Failures"). Pure: time is an argument.
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
  // Spans that fail for longer are dropped: newer ones are worth more.
  static constexpr milliseconds patience{60'000};

  struct failure {
    // The request was sent. Unless the response says otherwise it may have been processed, and is
    // not sent twice.
    bool was_sent = false;
    int status = 0;                          // of HTTP; 0: no response
    std::optional<milliseconds> retry_after; // from the response
  };
  struct verdict {
    bool is_kept = false; // the same spans are sent again
    milliseconds pause{0};
  };
  verdict failed(const failure& f, instant now);
  void taken();
  // Consecutive failures.
  std::uint32_t failures() const noexcept { return failures_; }

private:
  std::uint32_t failures_ = 0;
  std::optional<instant> since_; // the first failure of these spans
};

} // namespace baton::gateway
