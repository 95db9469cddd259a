// Memory of the host for copies that are not waited for. Two steps may be under way at once, the
// one whose outcome is taken and the one behind it: they take turns, and each turn has memory of
// its own.
#pragma once

#include "runtime/gpu/device.hpp"

#include <array>

namespace baton::gpu {

inline constexpr std::uint32_t turns = 2; // turn 0, turn 1, turn 0, ...

class turn_memory {
public:
  // At least so many bytes; what lay there is gone. Requires: the step that had the turn before has
  // ended. Throws what the device throws.
  std::byte* take(device& on, std::uint32_t turn, std::size_t bytes);
  // Keeps `bytes` of `from`, and asks for a copy of them to the device, in the order of the
  // kernels. One a step. Requires and throws: as take().
  void upload(device& on, std::uint32_t turn, void* to, const void* from, std::size_t bytes);

private:
  struct part {
    buffer memory;
    std::size_t room = 0;
  };
  std::array<part, turns> parts_;
};

} // namespace baton::gpu
