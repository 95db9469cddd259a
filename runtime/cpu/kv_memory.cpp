// Takes the memory of the KV blocks.
#include "runtime/cpu/kv_memory.hpp"

namespace baton::cpu {

result<kv_memory> kv_memory::take(const shape& sizes, std::uint32_t blocks) {
  std::size_t total = 0;
  if (__builtin_mul_overflow(sizes.block_bytes(), std::size_t{blocks}, &total))
    return fail(errc::does_not_fit, "{} KV blocks of {} bytes are beyond the address space", blocks,
                sizes.block_bytes());
  auto memory = large_memory::take(total);
  if (!memory)
    return memory.error();
  kv_memory kv;
  kv.memory_ = *std::move(memory);
  kv.shape_ = sizes;
  kv.blocks_ = blocks;
  return kv;
}

} // namespace baton::cpu
