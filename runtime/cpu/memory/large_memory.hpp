// Zeroed memory for data that every step reads: weights, KV, step buffers. Address space is
// reserved immediately; pages are allocated on first access (2 MiB pages if the kernel provides
// them).
#pragma once

#include "schema/result.hpp"

#include <cstddef>
#include <span>
#include <utility>

namespace baton::cpu {

class large_memory {
public:
  large_memory() = default;
  // Errors: does_not_fit (the address space cannot be reserved).
  static result<large_memory> take(std::size_t size_bytes);
  // Maps a file (memfd) that others hold as well: its contents outlive this process. `fd` may be
  // closed afterwards. Requires: the file has size_bytes. Errors: does_not_fit.
  static result<large_memory> map(int fd, std::size_t size_bytes);

  large_memory(large_memory&& other) noexcept;
  large_memory& operator=(large_memory&& other) noexcept;
  large_memory(const large_memory&) = delete;
  large_memory& operator=(const large_memory&) = delete;
  ~large_memory();

  // Allocates the pages of a part before they are accessed, at a third of the cost of page faults.
  // A hint: remaining pages are allocated on access.
  static void prefault(std::span<std::byte> part) noexcept;

  // Aligned to 2 MiB; null if empty.
  std::byte* data() const noexcept { return data_; }
  std::size_t size_bytes() const noexcept { return size_; }

private:
  static result<large_memory> reserve(std::size_t size_bytes, int protection);
  void release() noexcept;

  std::byte* mapping_ = nullptr;
  std::size_t mapping_size_ = 0;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Allocates 64-byte aligned parts of one large_memory in order. Used first without memory, to
// measure the total size, then with it.
class layout_cursor {
public:
  explicit layout_cursor(std::byte* base = nullptr) : base_(base) {}
  // Null while measuring.
  template <class T>
  T* part(std::size_t count) {
    const std::size_t at = used_;
    used_ += (count * sizeof(T) + 63) / 64 * 64;
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + at);
  }
  std::size_t used_bytes() const noexcept { return used_; }

private:
  std::byte* base_ = nullptr;
  std::size_t used_ = 0;
};

} // namespace baton::cpu
