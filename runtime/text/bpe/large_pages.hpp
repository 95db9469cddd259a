// Memory for arrays of many megabytes with random access, in pages of 2 MiB where the system grants
// them on request (Debian's default). With pages of 4 KiB each step misses the TLB and each page
// costs a fault. Measured on 10 MB in one piece: 25 to 30 % less time, and the same time per byte
// as with 1 MB.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

namespace baton::text {

template <class T>
struct large_page_allocator {
  using value_type = T;
  static constexpr std::size_t page_bytes = std::size_t{2} << 20U;

  large_page_allocator() = default;
  template <class U>
  large_page_allocator(const large_page_allocator<U>& /*other*/) noexcept {}

  // Throws std::bad_alloc, as containers expect.
  T* allocate(std::size_t count) {
    if (count > PTRDIFF_MAX / sizeof(T) - page_bytes)
      throw std::bad_alloc();
    const std::size_t bytes = count * sizeof(T);
    if (bytes < page_bytes)
      return static_cast<T*>(::operator new(bytes));
    const std::size_t whole = (bytes + page_bytes - 1) / page_bytes * page_bytes;
    void* memory = std::aligned_alloc(page_bytes, whole);
    if (memory == nullptr)
      throw std::bad_alloc();
    static_cast<void>(::madvise(memory, whole, MADV_HUGEPAGE)); // only slower if refused
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t count) noexcept {
    if (count * sizeof(T) < page_bytes)
      ::operator delete(memory);
    else
      std::free(memory);
  }

  friend bool operator==(const large_page_allocator&, const large_page_allocator&) = default;
};

template <class T>
using large_vector = std::vector<T, large_page_allocator<T>>;

} // namespace baton::text
