// When the next epoch of a pipeline may be opened, and whether epochs keep failing. An epoch fails
// if no step comes back in it. With the same shards, the first retry is immediate and later ones
// wait longer and longer. Other shards, or new incarnations, are tried at once: their supervisor
// limits their starts.
//
//   held --an epoch fails--> failing --more often than the intensity allows--> keeps failing
//    ^                          |                                                  |
//    +------ an epoch holds ----+--------------------------------------------------+
//
// While epochs keep failing the pipeline is not ready, and each retry waits for the longest pause.
// Pure; time is an argument.
#pragma once

#include "runtime/schedule/tickets/retry_policy.hpp"
#include "schema/ids.hpp"

#include <string>
#include <utility>
#include <vector>

namespace baton::actors {

// How many consecutive epochs may fail before they keep failing.
inline constexpr schedule::retry_intensity epoch_intensity{5, std::chrono::seconds(600)};
// An epoch of this age holds if a step came back in it. Without any step it holds too, unless
// epochs keep failing.
inline constexpr std::chrono::milliseconds epoch_held_after{2000};
// The longest pause between two epochs.
inline constexpr std::chrono::milliseconds epoch_pause_max =
    schedule::retry_policy::pause_max(std::chrono::seconds(1));

class epoch_retries {
public:
  using time_point = schedule::retry_policy::time_point;
  using incarnations =
      std::vector<std::pair<process_id, incarnation_id>>; // the shards' incarnations

  // Whether an epoch with these shards may be opened now. If not, ask again later.
  bool may_open(const incarnations& shards, time_point now);
  void on_opening(incarnations shards);
  void on_opened(time_point now);
  // A step of the epoch came back, successful or not.
  void on_step() { has_stepped_ = true; }
  // The opening or open epoch has ended; no effect if there was none. `was_waiting`: steps were in
  // flight.
  void on_closed(time_point now, bool was_waiting, std::string why);
  // Called a few times a second while an epoch is open. True if epochs stop failing now.
  bool has_held(time_point now, bool is_waiting);

  // Since when the pipeline has been lost: the end of the first of the consecutive failed epochs.
  std::optional<time_point> failing_since() const noexcept { return failing_since_; }
  bool keeps_failing() const noexcept { return keeps_failing_; }
  // Whether the next epoch waits for a pause to end.
  bool is_paused() const noexcept { return retry_at_.has_value(); }
  // "6 epochs in a row failed, the last one: ..."; empty if none failed.
  std::string reason() const;

private:
  void succeed();
  void count_failure(time_point closed_at);

  schedule::retry_policy policy_{epoch_intensity};
  incarnations tried_;                  // the shards of the last opened epoch
  bool is_under_way_ = false;           // an epoch is opening or open
  std::optional<time_point> opened_at_; // empty: none is open
  bool has_stepped_ = false;
  std::optional<time_point> failed_at_; // end of the last failed epoch, until it is counted
  std::optional<time_point> retry_at_;
  std::optional<time_point> failing_since_;
  bool keeps_failing_ = false;
  std::uint64_t failures_ = 0; // consecutive
  std::string why_;            // cause of the last failure
};

} // namespace baton::actors
