// The generations of a pipeline's shards, as the root publishes them to head and agents.
// Pure: no clock, no files, no messages.
//
//   settled --begin--> changing --the head serves with the new one--> settled, with the new one
//      ^                  |
//      |                  +--one of its shards is given up; timeout--> settled, as before
//      +--replace: without a way back
#pragma once

#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace baton::cluster {

// As stored in the run directory: the generations, and the highest number ever assigned.
struct recorded_generations {
  generations now;
  std::uint32_t last = 0;
  friend bool operator==(const recorded_generations&, const recorded_generations&) = default;
};

// The record on machines other than the root's, which alone assigns numbers.
recorded_generations agent_record_of(const generations& now);
bool is_without(const generation& which, const std::string& node);
// The same without these nodes; `which` may exclude them already.
generation leave_out(generation which, const std::set<std::string>& nodes);
generations leave_out(generations now, const std::set<std::string>& nodes);

// From the start of a generation's shards to its first epoch; a cold disk takes long to read.
inline constexpr std::chrono::minutes change_patience{10};
// Limits generation numbers, which are part of process ids (plan.hpp).
inline constexpr std::uint32_t generations_max = 1u << 20;

// Whether generations that a peer or a file names are possible. Errors: invalid_value (a number,
// a width or a count of shards out of range).
result<void> check_generations(const generations& now);
// Also whether no number is above the last one assigned.
result<void> check_generations(const recorded_generations& record);

class generation_registry {
public:
  using time_point = std::chrono::steady_clock::time_point;
  // Continues a change that an earlier root has begun, with the full timeout.
  generation_registry(recorded_generations record, time_point now);

  // `next` has a number above all assigned ones, of any pipeline. `why` is the reason in status
  // reports; "" if an operator ordered it. Errors: conflict (a change is under way), does_not_fit
  // (generations_max).
  result<void> begin(generation next, time_point now, const std::string& why = {});
  // The same, but the serving generation ends at once: it cannot serve, and its memory is needed.
  result<void> replace(generation next, time_point now, const std::string& why);
  // Excludes new nodes: they have no shards of any generation.
  void leave_out(const std::set<std::string>& nodes);
  // Records the reason why a needed change is impossible.
  void stay(const std::string& why);
  // Each returns whether it changed the state.
  bool on_serves(std::uint32_t generation);
  bool give_up(const std::string& why);
  bool tick(time_point now);

  const recorded_generations& record() const noexcept { return record_; }
  bool is_changing() const noexcept { return coming().has_value(); }
  std::optional<std::uint32_t> coming() const noexcept {
    return record_.now.coming ? std::optional(record_.now.coming->number) : std::nullopt;
  }
  // The progress of the change, or the result of the last one; "" if there was none.
  const std::string& outcome() const noexcept { return outcome_; }

private:
  recorded_generations record_;
  time_point late_at_{};
  std::string why_; // ": node b is gone"
  std::string outcome_;
};

} // namespace baton::cluster
