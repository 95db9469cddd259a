// What one API key may use: requests and tokens a minute, requests at once. Pure: time is given.
//
// A minute's worth is there at first and comes back evenly: who has been quiet for a minute may ask
// for all of it at once. Tokens are taken as they come, because nobody knows before how many there
// will be: a request begins while any are left, and what it takes beyond is owed.
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

  // A request begins, unless one of the quotas is used up: then nothing is taken.
  std::optional<quota_refusal> begin(instant now);
  // One that was begun before goes on, by a client that has come back to it: never refused.
  void begin_again() noexcept { ++open_; }
  void end() noexcept;
  void spend(std::uint64_t tokens, instant now);
  // Other bounds from now on; what was used stays used.
  void change(const key_quotas& quotas, instant now);

private:
  // So many a minute; `left` may be owed (below 0).
  struct allowance {
    double per_minute = 0; // 0: no bound
    double left = 0;
    instant at;

    void refill(instant now) noexcept;
    // Until there is one.
    std::chrono::milliseconds until_one() const noexcept;
    void change(double to, instant now) noexcept;
  };

  key_quotas quotas_;
  allowance requests_;
  allowance tokens_;
  std::uint64_t open_ = 0;
};

} // namespace baton::gateway
