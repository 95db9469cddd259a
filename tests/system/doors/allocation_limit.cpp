#include "tests/system/doors/allocation_limit.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <new>

namespace {

constexpr std::size_t exempt_max = 64;
std::array<pid_t, exempt_max> exempt{};
std::size_t exempt_count = 0;
std::atomic<std::size_t> limit{0};

bool is_refused(std::size_t bytes) {
  const auto most = limit.load(std::memory_order_relaxed);
  if (most == 0 || bytes <= most) {
    return false;
  }
  const auto end = exempt.begin() + static_cast<std::ptrdiff_t>(exempt_count);
  return std::find(exempt.begin(), end, gettid()) == end;
}

} // namespace

namespace baton::tests {

void exempt_threads_from_allocation_limit() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    const auto name = task.path().filename().string();
    if (exempt_count < exempt_max) {
      std::from_chars(name.data(), name.data() + name.size(), exempt[exempt_count++]);
    }
  }
}

void limit_allocations(std::size_t bytes) {
  limit.store(bytes, std::memory_order_relaxed);
}

} // namespace baton::tests

void* operator new(std::size_t bytes) {
  if (is_refused(bytes)) {
    throw std::bad_alloc();
  }
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) {
    return memory;
  }
  throw std::bad_alloc();
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
