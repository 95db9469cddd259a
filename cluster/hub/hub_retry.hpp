// Which failures of a hub are tried again, and when. Pure; the time is an argument.
#pragma once

#include "cluster/hub/http_transfers.hpp"
#include "runtime/schedule/tickets/retry_policy.hpp"

#include <chrono>
#include <optional>
#include <string>

namespace baton::cluster {

// A Retry-After header: seconds, or a date of HTTP. Nothing: it is neither.
std::optional<std::chrono::seconds> retry_after(const std::string& header,
                                                std::time_t now) noexcept;

// Whether the same request may succeed later: it was cut, 408, 429 or 5xx.
bool is_transient(const transfer_end& end) noexcept;

class hub_retry {
public:
  using clock = std::chrono::steady_clock;
  static constexpr std::uint32_t attempts_max = 6; // without a byte of progress between them
  static constexpr std::chrono::seconds retry_after_max{300};

  // The pause before the next attempt, at least what the hub asks for. Nothing: give up.
  std::optional<std::chrono::milliseconds> pause_after(const transfer_end& end,
                                                       clock::time_point now, std::time_t wall_now);
  void on_progress() { policy_.on_success(); }

private:
  schedule::retry_policy policy_{{attempts_max, std::chrono::hours(24)}};
};

} // namespace baton::cluster
