// When the next epoch of a pipeline may be opened, and whether epochs keep failing. An epoch fails
// if no step comes back in it. With the same shards the next one waits, at first not at all, then
// longer each time. Shards in another life, and other shards, are tried at once: their supervisor
// bounds how often they start.
//
//   held --an epoch fails--> failing --more often than the intensity allows--> keeps failing
//    ^                          |                                                  |
//    +------ an epoch holds ----+--------------------------------------------------+
//
// While epochs keep failing the pipeline is not ready, and each try waits for the longest pause.
// Pure; time is given.
#pragma once

#include "runtime/schedule/retry_policy.hpp"
#include "schema/ids.hpp"

#include <string>
#include <utility>
#include <vector>

namespace baton::actors {

// How many epochs may fail in a row before they keep failing.
inline constexpr schedule::retry_intensity epoch_intensity{5, std::chrono::seconds(600)};
// An epoch that has been open for so long holds if a step came back in it. Without any step it
// holds as well, unless epochs keep failing.
inline constexpr std::chrono::milliseconds epoch_held_after{2000};
// The longest pause between two of them.
inline constexpr std::chrono::milliseconds epoch_pause_max =
    schedule::retry_policy::pause_max(std::chrono::seconds(1));

class epoch_retries {
public:
  using time_point = schedule::retry_policy::time_point;
  using lives = std::vector<std::pair<node_id, epoch_id>>; // the shards, each in its life

  // Whether an epoch with these shards may be opened now. If not, ask again a little later.
  bool may_open(const lives& shards, time_point now);
  void on_opening(lives shards);
  void on_opened(time_point now);
  // A step of the epoch came back, with or without an error.
  void on_step() { has_stepped_ = true; }
  // The epoch that was opening or open has ended; does nothing if there was none. `was_waiting`:
  // steps were in flight.
  void on_closed(time_point now, bool was_waiting, std::string why);
  // Called a few times a second while an epoch is open. True if epochs stop to keep failing now.
  bool has_held(time_point now, bool is_waiting);

  // Since when the pipeline has been lost: the first of the epochs in a row that came to nothing.
  std::optional<time_point> failing_since() const noexcept { return failing_since_; }
  bool keeps_failing() const noexcept { return keeps_failing_; }
  // Whether the next one waits for its time.
  bool is_paused() const noexcept { return again_at_.has_value(); }
  // "6 epochs in a row came to nothing, the last one: ..."; empty if none did.
  std::string reason() const;

private:
  void succeed();
  void judge(time_point closed_at);

  schedule::retry_policy policy_{epoch_intensity};
  lives tried_;                         // with whom the last one was opened
  bool is_under_way_ = false;           // an epoch is opening or open
  std::optional<time_point> opened_at_; // nothing: none is open
  bool has_stepped_ = false;
  std::optional<time_point> came_to_nothing_at_; // the last one, and it is not judged yet
  std::optional<time_point> again_at_;
  std::optional<time_point> failing_since_;
  bool keeps_failing_ = false;
  std::uint64_t failures_ = 0; // in a row
  std::string why_;            // the last one failed
};

} // namespace baton::actors
