// mmap with an alignment that allows 2 MiB pages: weight streams are 2 to 4 % faster.
#include "runtime/cpu/memory/large_memory.hpp"

#include <sys/mman.h>

#include <cstdint>

namespace baton::cpu {
namespace {
constexpr std::size_t huge_page_bytes = std::size_t{2} << 20U;
}

// Reserves address space with an aligned part of at least `size_bytes`.
result<large_memory> large_memory::reserve(std::size_t size_bytes, int protection) {
  if (size_bytes > PTRDIFF_MAX - 2 * huge_page_bytes)
    return fail(errc::does_not_fit, "{} bytes are beyond the address space", size_bytes);
  large_memory memory;
  memory.size_ = (size_bytes + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
  memory.mapping_size_ = memory.size_ + huge_page_bytes;
  void* mapping = ::mmap(nullptr, memory.mapping_size_, protection,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    memory.mapping_size_ = 0;
    return fail(errc::does_not_fit, "the system cannot reserve {} bytes of memory", size_bytes);
  }
  memory.mapping_ = static_cast<std::byte*>(mapping);
  const auto address = reinterpret_cast<std::uintptr_t>(mapping);
  const auto aligned = (address + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
  memory.data_ = memory.mapping_ + (aligned - address);
  return memory;
}

result<large_memory> large_memory::take(std::size_t size_bytes) {
  auto memory = reserve(size_bytes, PROT_READ | PROT_WRITE);
  // A hint: without it everything works with small pages.
  if (memory)
    static_cast<void>(::madvise(memory->data_, memory->size_, MADV_HUGEPAGE));
  return memory;
}

result<large_memory> large_memory::map(int fd, std::size_t size_bytes) {
  auto memory = reserve(size_bytes, PROT_NONE);
  if (!memory)
    return memory;
  if (::mmap(memory->data_, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
      MAP_FAILED)
    return fail(errc::does_not_fit, "the system cannot map {} bytes of shared memory", size_bytes);
  static_cast<void>(::madvise(memory->data_, memory->size_, MADV_HUGEPAGE));
  return memory;
}

void large_memory::prefault(std::span<std::byte> part) noexcept {
  constexpr std::uintptr_t page_bytes = 4096; // on systems with larger pages the call fails
  const auto begin = reinterpret_cast<std::uintptr_t>(part.data()) / page_bytes * page_bytes;
  const auto end = reinterpret_cast<std::uintptr_t>(part.data() + part.size());
  static_cast<void>(::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE));
}

large_memory::large_memory(large_memory&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapping_size_(std::exchange(other.mapping_size_, 0)),
      data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

large_memory& large_memory::operator=(large_memory&& other) noexcept {
  if (this != &other) {
    release();
    mapping_ = std::exchange(other.mapping_, nullptr);
    mapping_size_ = std::exchange(other.mapping_size_, 0);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

large_memory::~large_memory() {
  release();
}

void large_memory::release() noexcept {
  if (mapping_ != nullptr)
    ::munmap(mapping_, mapping_size_);
}

} // namespace baton::cpu
