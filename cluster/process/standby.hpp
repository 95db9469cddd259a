// A process forks a sleeping standby of itself, which becomes its next incarnation. fork shares the
// pages with everything that was read and packed until then. So a shard that dies is replaced
// without reading its weights again (docs/decisions/0014-a-copy-waits.md).
//
//   agent --exec--> first incarnation --fork--> standby (sleeps)
//                       | dies                    |
//                       v               activated v
//                     (gone)            second incarnation --fork--> standby (sleeps)
//
// Agent and standbys share a socket. A standby sends its pid when it is ready; the agent sends the
// parameters of the next incarnation. A standby exits when its agent is gone.
#pragma once

#include "schema/ids.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <optional>
#include <utility>

namespace baton::cluster {

struct standby_orders {
  incarnation_id incarnation;
  std::int32_t parent = 0; // the agent; dies with it until it is recorded
  int file = -1;           // KV memory; -1: none
};

// Forks the standby. Returns nothing in the caller, and in an activated standby its parameters.
// `socket` is the standby's end. Requires: no other thread. If fork fails for lack of memory, the
// next incarnation is started from scratch.
std::optional<standby_orders> fork_standby(int socket);

// The agent's end of the socket.
class standby_channel {
public:
  // Errors: io_failed.
  static result<standby_channel> create();
  standby_channel(standby_channel&& other) noexcept
      : ours_(std::exchange(other.ours_, -1)), theirs_(std::exchange(other.theirs_, -1)) {}
  standby_channel& operator=(standby_channel&& other) noexcept {
    std::swap(ours_, other.ours_);
    std::swap(theirs_, other.theirs_);
    return *this;
  }
  ~standby_channel();

  int for_child() const noexcept { return theirs_; } // closed on exec
  // Activates a standby and returns its pid; nothing if none is ready.
  std::optional<std::int32_t> activate(const standby_orders& given);

private:
  standby_channel(int ours, int theirs) : ours_(ours), theirs_(theirs) {}
  int ours_ = -1;
  int theirs_ = -1;
};

} // namespace baton::cluster
