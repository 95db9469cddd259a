// Allocates the memory of the KV blocks, or maps existing memory.
#include "runtime/cpu/memory/kv_memory.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <random>

namespace baton::cpu {
namespace {

result<std::size_t> bytes_of(const kv_shape& sizes, std::uint32_t blocks, std::size_t before) {
  std::size_t total = 0, states = 0;
  if (__builtin_mul_overflow(sizes.block_bytes(), std::size_t{blocks}, &total) ||
      __builtin_mul_overflow(sizes.slot_bytes(), std::size_t{sizes.state_slots}, &states) ||
      __builtin_add_overflow(total, states, &total) ||
      __builtin_add_overflow(total, before, &total))
    return fail(errc::does_not_fit, "{} KV blocks of {} bytes are beyond the address space", blocks,
                sizes.block_bytes());
  return total;
}

std::uint64_t new_incarnation() {
  std::random_device source;
  return (std::uint64_t{source()} << 32U | source()) | 1U;
}

// Resizes the file to zeroed bytes. Errors: io_failed.
result<void> empty(int fd, std::size_t size_bytes) {
  if (::ftruncate(fd, 0) != 0 || ::ftruncate(fd, static_cast<off_t>(size_bytes)) != 0)
    return fail(errc::io_failed, "KV memory of {} bytes: {}", size_bytes, std::strerror(errno));
  return {};
}

bool has_size(int fd, std::size_t size_bytes) {
  struct stat facts {};
  return ::fstat(fd, &facts) == 0 && static_cast<std::size_t>(facts.st_size) == size_bytes;
}

} // namespace

result<kv_memory> kv_memory::take(const kv_shape& sizes, std::uint32_t blocks) {
  const auto total = bytes_of(sizes, blocks, 0);
  if (!total)
    return total.error();
  auto memory = large_memory::take(*total);
  if (!memory)
    return memory.error();
  return kv_memory(*std::move(memory), sizes, blocks, 0);
}

result<kv_memory> kv_memory::share(const kv_shape& sizes, std::uint32_t blocks, int fd,
                                   const kv_part& part) {
  const auto total = bytes_of(sizes, blocks, kv_label_bytes);
  if (!total)
    return total.error();
  const bool is_used = has_size(fd, *total);
  if (!is_used)
    if (auto ok = empty(fd, *total); !ok)
      return ok.error();
  auto memory = large_memory::map(fd, *total);
  if (!memory)
    return memory.error();
  kv_memory kv(*std::move(memory), sizes, blocks, kv_label_bytes);
  kv_label found;
  std::memcpy(&found, kv.memory_.data(), sizeof found);
  auto ours = label_of(part, sizes, blocks, found.incarnation);
  if (found.incarnation == 0 || found != ours) {
    if (is_used)
      if (auto ok = empty(fd, *total); !ok) // visible through the mapping of the same file
        return ok.error();
    ours.incarnation = new_incarnation();
    std::memcpy(kv.memory_.data(), &ours, sizeof ours);
  }
  kv.incarnation_ = ours.incarnation;
  kv.is_used_.resize(blocks);
  return kv;
}

// A sequence uses its blocks from first to last, so the search ends at the last used one.
void kv_memory::first_uses(std::span<const std::uint32_t> blocks, std::vector<std::uint32_t>& out) {
  if (is_used_.empty())
    return;
  for (auto i = blocks.size(); i > 0 && !is_used_[blocks[i - 1]]; --i) {
    is_used_[blocks[i - 1]] = true;
    out.push_back(blocks[i - 1]);
  }
}

} // namespace baton::cpu
