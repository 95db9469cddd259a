// Which generations of shards there are: the root's word to head and agents, and what changes it.
// Pure: no clock, no files, no messages.
//
//   settled --begin--> changing --the head serves with the coming one--> settled, with that one
//      ^                  |
//      |                  +--one of its shards is given up; too late--> settled, as before
//      +--replace: there is nothing to go back to
#pragma once

#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace baton::cluster {

// As noted in the run directory: what there is, and the highest number that was ever given.
struct noted_generations {
  generations now;
  std::uint32_t last = 0;
  friend bool operator==(const noted_generations&, const noted_generations&) = default;
};

// As a machine notes them that hands out no numbers: the root does.
noted_generations noted_elsewhere(const generations& now);
bool is_without(const generation& which, const std::string& node);
// The same without these nodes, those that it is without already among them.
generation leave_out(generation which, const std::set<std::string>& nodes);
generations leave_out(generations now, const std::set<std::string>& nodes);

// From the start of a generation's shards to its first epoch: a cold disk has to be read meanwhile.
inline constexpr std::chrono::minutes change_patience{10};
// Numbers of generations, which are part of node ids (plan.hpp).
inline constexpr std::uint32_t generations_max = 1u << 20;

class generation_book {
public:
  using time_point = std::chrono::steady_clock::time_point;
  // Where a root before has begun a change, it goes on, with all of its time.
  generation_book(noted_generations noted, time_point now);

  // Its number is above all that were given, here or to another pipeline. `why` is for whoever asks
  // how the change stands; "": somebody has ordered it. Errors: conflict (a change is under way),
  // does_not_fit (generations_max).
  result<void> begin(generation next, time_point now, const std::string& why = {});
  // The same, and those that serve end at once: what they hold is needed, and they cannot serve.
  result<void> replace(generation next, time_point now, const std::string& why);
  // Nodes that have come to be: they have no shards of any generation.
  void leave_out(const std::set<std::string>& nodes);
  // No change, though there should be one.
  void stay(const std::string& why);
  // Each is true if that changed what there is.
  bool on_serves(std::uint32_t generation);
  bool give_up(const std::string& why);
  bool tick(time_point now);

  const noted_generations& noted() const noexcept { return noted_; }
  bool is_changing() const noexcept { return coming().has_value(); }
  std::optional<std::uint32_t> coming() const noexcept {
    return noted_.now.coming ? std::optional(noted_.now.coming->number) : std::nullopt;
  }
  // How the change stands, or how the last one ended; "": there was none.
  const std::string& outcome() const noexcept { return outcome_; }

private:
  noted_generations noted_;
  time_point late_at_{};
  std::string why_; // ": node b is gone"
  std::string outcome_;
};

} // namespace baton::cluster
