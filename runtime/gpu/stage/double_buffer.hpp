// Host memory for asynchronous copies. Two steps may be in flight: one whose outcome is being
// taken, and the next one. They alternate between two buffers.
#pragma once

#include "runtime/gpu/device/device.hpp"

#include <array>

namespace baton::gpu {

inline constexpr std::uint32_t buffer_count = 2; // buffer 0, buffer 1, buffer 0, ...

class double_buffer {
public:
  // At least `bytes` bytes; their old contents are lost. Requires: the previous step with this
  // buffer has ended. Throws what the device throws.
  std::byte* take(device& on, std::uint32_t buffer_index, std::size_t bytes);
  // Saves `bytes` of `from` and enqueues their copy to the device, in order with the kernels. Once
  // per step. Requires and throws: as take().
  void upload(device& on, std::uint32_t buffer_index, void* to, const void* from,
              std::size_t bytes);

private:
  struct part {
    buffer memory;
    std::size_t room = 0;
  };
  std::array<part, buffer_count> parts_;
};

} // namespace baton::gpu
