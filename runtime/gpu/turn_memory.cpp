#include "runtime/gpu/turn_memory.hpp"

#include <bit>
#include <cstring>

namespace baton::gpu {

std::byte* turn_memory::take(device& on, std::uint32_t turn, std::size_t bytes) {
  part& own = parts_[turn];
  if (bytes > own.room) {
    own = {}; // in case the allocation fails
    own.memory = on.take_host(std::bit_ceil(bytes));
    own.room = std::bit_ceil(bytes);
  }
  return own.memory.as<std::byte>();
}

void turn_memory::upload(device& on, std::uint32_t turn, void* to, const void* from,
                         std::size_t bytes) {
  if (bytes == 0)
    return;
  std::byte* kept = take(on, turn, bytes);
  std::memcpy(kept, from, bytes);
  on.upload_later(to, kept, bytes);
}

} // namespace baton::gpu
