#include "runtime/gpu/stage/double_buffer.hpp"

#include <bit>
#include <cstring>

namespace baton::gpu {

std::byte* double_buffer::take(device& on, std::uint32_t buffer_index, std::size_t bytes) {
  part& own = parts_[buffer_index];
  if (bytes > own.room) {
    own = {}; // in case the allocation fails
    own.memory = on.take_host(std::bit_ceil(bytes));
    own.room = std::bit_ceil(bytes);
  }
  return own.memory.as<std::byte>();
}

void double_buffer::upload(device& on, std::uint32_t buffer_index, void* to, const void* from,
                           std::size_t bytes) {
  if (bytes == 0)
    return;
  std::byte* kept = take(on, buffer_index, bytes);
  std::memcpy(kept, from, bytes);
  on.upload_later(to, kept, bytes);
}

} // namespace baton::gpu
