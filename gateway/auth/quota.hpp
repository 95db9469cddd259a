// The quotas of one API key: requests and tokens per minute, concurrent requests. Pure: time is an
// argument.
//
// An allowance starts with a full minute's worth and refills evenly, so a client that was idle for
// a minute may use all of it at once. Tokens are charged as they come, because their number is
// unknown before. A request begins while any are left; its excess is owed.
#pragma once

#include "gateway/auth/key_ring.hpp"

#include <chrono>
#include <optional>
#include <string_view>

namespace baton::gateway {

inline constexpr std::string_view quota_names[] = {"concurrent_requests", "requests_per_minute",
                                                   "tokens_per_minute"};

struct quota_refusal {
  std::string_view quota; // "requests_per_minute" ...
  std::uint64_t limit = 0;
  std::chrono::milliseconds retry_after{0};
};

class quota_meter {
public:
  using instant = std::chrono::steady_clock::time_point;

  quota_meter(const key_quotas& quotas, instant now);

  // Begins a request, unless a quota is used up: then nothing is taken.
  std::optional<quota_refusal> begin(instant now);
  // A client resumes a request that was begun before: never refused.
  void begin_resumed() noexcept { ++open_; }
  void end() noexcept;
  void record_usage(std::uint64_t tokens, instant now);
  // Changes the bounds; past usage still counts.
  void change(const key_quotas& quotas, instant now);

private:
  // Tokens or requests per minute; `left` may be owed (below 0).
  struct allowance {
    double per_minute = 0; // 0: no bound
    double left = 0;
    instant at;

    void refill(instant now) noexcept;
    // The time until one is left.
    std::chrono::milliseconds until_one() const noexcept;
    void change(double to, instant now) noexcept;
  };

  key_quotas quotas_;
  allowance requests_;
  allowance tokens_;
  std::uint64_t open_ = 0;
};

} // namespace baton::gateway
