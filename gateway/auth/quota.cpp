#include "gateway/auth/quota.hpp"

#include <algorithm>
#include <cmath>

namespace baton::gateway {
namespace {

// Requests end every second on a busy server.
constexpr std::chrono::milliseconds concurrency_retry_after{1'000};
constexpr double minute_ms = 60'000;

} // namespace

void quota_meter::allowance::refill(instant now) noexcept {
  if (now <= at) {
    return;
  }
  const auto passed_ms = std::chrono::duration<double, std::milli>(now - at).count();
  left = std::min(per_minute, left + passed_ms * per_minute / minute_ms);
  at = now;
}

std::chrono::milliseconds quota_meter::allowance::until_one() const noexcept {
  const auto ms = std::ceil((1 - left) * minute_ms / per_minute);
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::max(1.0, ms)));
}

void quota_meter::allowance::change(double to, instant now) noexcept {
  refill(now);
  left = per_minute == 0 ? to : left + to - per_minute;
  per_minute = to;
  at = now;
}

quota_meter::quota_meter(const key_quotas& quotas, instant now) {
  change(quotas, now);
}

std::optional<quota_refusal> quota_meter::begin(instant now) {
  if (quotas_.concurrent_requests != 0 && open_ >= quotas_.concurrent_requests) {
    return quota_refusal{quota_names[0], quotas_.concurrent_requests, concurrency_retry_after};
  }
  requests_.refill(now);
  if (requests_.per_minute != 0 && requests_.left < 1) {
    return quota_refusal{quota_names[1], quotas_.requests_per_minute, requests_.until_one()};
  }
  tokens_.refill(now);
  if (tokens_.per_minute != 0 && tokens_.left < 1) {
    return quota_refusal{quota_names[2], quotas_.tokens_per_minute, tokens_.until_one()};
  }
  requests_.left -= 1;
  ++open_;
  return std::nullopt;
}

void quota_meter::end() noexcept {
  open_ -= std::min<std::uint64_t>(open_, 1);
}

void quota_meter::record_usage(std::uint64_t tokens, instant now) {
  tokens_.refill(now);
  tokens_.left -= static_cast<double>(tokens);
}

void quota_meter::change(const key_quotas& quotas, instant now) {
  requests_.change(quotas.requests_per_minute, now);
  tokens_.change(static_cast<double>(quotas.tokens_per_minute), now);
  quotas_ = quotas;
}

} // namespace baton::gateway
