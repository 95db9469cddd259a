#include "actors/epoch_retries.hpp"

#include <fmt/format.h>

namespace baton::actors {

// A failed epoch counts against the current shards only if they are the same.
bool epoch_retries::may_open(const incarnations& shards, time_point now) {
  const auto ended_at = std::exchange(failed_at_, std::nullopt);
  if (shards != tried_)
    retry_at_.reset();
  else if (ended_at)
    count_failure(*ended_at);
  return !retry_at_ || now >= *retry_at_;
}

void epoch_retries::count_failure(time_point closed_at) {
  const auto pause = policy_.on_end(closed_at, /*was_of_use=*/false);
  keeps_failing_ |= !pause;
  retry_at_ = closed_at + pause.value_or(epoch_pause_max);
  ++failures_;
}

void epoch_retries::on_opening(incarnations shards) {
  tried_ = std::move(shards);
  retry_at_.reset();
  opened_at_.reset();
  has_stepped_ = false;
  is_under_way_ = true;
}

void epoch_retries::on_opened(time_point now) {
  opened_at_ = now;
}

void epoch_retries::on_closed(time_point now, bool was_waiting, std::string why) {
  if (!std::exchange(is_under_way_, false))
    return;
  has_held(now, was_waiting);
  const bool was_short = !opened_at_ || now - *opened_at_ < epoch_held_after;
  if (!has_stepped_ && (was_short || was_waiting || keeps_failing_)) {
    failed_at_ = now;
    failing_since_ = failing_since_.value_or(now);
    why_ = std::move(why);
  }
  opened_at_.reset();
}

bool epoch_retries::has_held(time_point now, bool is_waiting) {
  if (!failing_since_ || !opened_at_ || now - *opened_at_ < epoch_held_after)
    return false;
  if (!has_stepped_ && (is_waiting || keeps_failing_))
    return false;
  const bool kept_failing = keeps_failing_;
  succeed();
  return kept_failing;
}

void epoch_retries::succeed() {
  policy_.on_success();
  failing_since_.reset();
  keeps_failing_ = false;
  failures_ = 0;
  why_.clear();
}

std::string epoch_retries::reason() const {
  if (failures_ == 0)
    return {};
  return fmt::format("{} {} failed, the last one: {}", failures_,
                     failures_ == 1 ? "epoch" : "epochs in a row", why_);
}

} // namespace baton::actors
