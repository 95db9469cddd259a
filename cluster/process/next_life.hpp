// A process that leaves a sleeping copy of itself, which becomes its next life. What the process
// had read and packed when the copy was made, both have: fork shares the pages. A shard that dies
// is replaced without reading its weights again (docs/decisions/0014-a-copy-waits.md).
//
//   agent --exec--> first life --fork--> copy (sleeps)
//                       | dies             |
//                       v           called v
//                     (gone)        second life --fork--> copy (sleeps)
//
// Agent and copies share a socket: a copy says its pid when it is there, the agent says what the
// next life is. A copy whose agent is gone ends.
#pragma once

#include "schema/ids.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <optional>
#include <utility>

namespace baton::cluster {

struct next_life {
  epoch_id epoch;
  std::int32_t parent = 0; // the agent: it dies with it until it is noted
  int file = -1;           // its KV; -1: none
};

// Makes the copy. Returns nothing in the caller, and in a copy, once it has been called, what it is
// to be. `socket` is the copies' end. Requires: no other thread. Without a copy, if there is no
// memory for one, the next life is started anew.
std::optional<next_life> leave_copy(int socket);

// The agent's end.
class copies {
public:
  // Errors: io_failed.
  static result<copies> create();
  copies(copies&& other) noexcept
      : ours_(std::exchange(other.ours_, -1)), theirs_(std::exchange(other.theirs_, -1)) {}
  copies& operator=(copies&& other) noexcept {
    std::swap(ours_, other.ours_);
    std::swap(theirs_, other.theirs_);
    return *this;
  }
  ~copies();

  int for_child() const noexcept { return theirs_; } // closed on exec
  // The pid of the copy that wakes up as `life`; nothing if none is there.
  std::optional<std::int32_t> call(const next_life& life);

private:
  copies(int ours, int theirs) : ours_(ours), theirs_(theirs) {}
  int ours_ = -1;
  int theirs_ = -1;
};

} // namespace baton::cluster
