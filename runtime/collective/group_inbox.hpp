// Where a rank finds what the others of its group have sent over the bus. Filled by the bus's
// threads, emptied by the one that runs the engine.
//
// Holds one message of each rank: nobody sends a second one before the first was answered
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

  // Keeps it if it is of the epoch that has begun here and the rank exists. One of a later epoch
  // tells that this one is over.
  void put(group_values&& m);
  // The rank's link is up, or no longer. A rank has none at first.
  void set_up(std::uint32_t rank, bool is_up);

  // -- From the rank's own thread --

  // Forgets what came before.
  void begin(epoch_id epoch);
  // What the rank says at that meeting. Errors: deadline_exceeded, link_down (its process is gone),
  // stale_epoch (another one has begun).
  result<group_values> await(std::uint32_t rank, std::uint64_t meeting, clock::time_point until);
  // Whether it could still say something, without waiting. Errors: link_down, stale_epoch.
  result<void> look(std::uint32_t rank);

private:
  struct seat {
    bool is_up = false;
    std::optional<group_values> last;
  };

  std::mutex mutex_;
  std::condition_variable has_news_;
  epoch_id epoch_, latest_; // the one that has begun here; the latest that was heard of
  std::vector<seat> seats_; // [rank]
};

} // namespace baton::collective
