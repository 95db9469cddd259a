// Messages of the group's other ranks, received over the bus. Filled by the bus's threads, emptied
// by the thread that runs the engine.
//
// Holds one message per rank: a rank sends its next message only after an answer
// (bus_collective.hpp).
#pragma once

#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

namespace baton::collective {

class group_inbox {
public:
  using clock = std::chrono::steady_clock;

  explicit group_inbox(std::uint32_t width);

  // -- From the bus's threads --

  // Keeps the message if its epoch is the current one and the rank exists. A message of a later
  // epoch ends this one.
  void put(group_values&& m);
  // Sets whether the rank's link is up. Initially it is down. If it goes down after the first wait
  // of an epoch, it counts as down until the next epoch. It may come back at once, but a message
  // may be lost, or the process is another one.
  void set_up(std::uint32_t rank, bool is_up);

  // -- From the rank's own thread --

  // Forgets earlier messages.
  void begin(epoch_id epoch);
  // The rank's message for that rendezvous. Errors: deadline_exceeded, link_down (its process is
  // gone), stale_epoch (another epoch has begun).
  result<group_values> await(std::uint32_t rank, std::uint64_t meeting, clock::time_point until);
  // Whether a message could still come; does not wait. Errors: link_down, stale_epoch.
  result<void> look(std::uint32_t rank);

private:
  struct peer_state {
    bool is_up = false;
    bool is_awaited = false, is_lost = false; // in this epoch
    bool is_down() const { return !is_up || is_lost; }
    std::optional<group_values> last;
  };

  std::mutex mutex_;
  std::condition_variable has_news_;
  epoch_id epoch_, latest_;       // the current epoch here; the latest one seen in a message
  std::vector<peer_state> peers_; // [rank]
};

} // namespace baton::collective
