#include "gateway/tracing/export_retry.hpp"

#include <algorithm>

namespace baton::gateway {
namespace {

// Statuses by which a collector took nothing, but may take it later.
bool may_pass(int status) noexcept {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

} // namespace

export_retry::verdict export_retry::failed(const failure& f, instant now) {
  constexpr std::uint32_t doublings_max = 5; // beyond pause_max
  const auto pause =
      f.retry_after ? *f.retry_after : pause_min * (1u << std::min(failures_, doublings_max));
  ++failures_;
  if (!since_)
    since_ = now;
  verdict v{!f.was_sent || may_pass(f.status), std::clamp(pause, pause_min, pause_max)};
  if (now + v.pause - *since_ > patience)
    v.is_kept = false;
  if (!v.is_kept)
    since_.reset();
  return v;
}

void export_retry::taken() {
  failures_ = 0;
  since_.reset();
}

} // namespace baton::gateway
