// KV memory in a file: first use of a block in a process, and prefaulting.
#include "runtime/cpu/memory/kv_memory.hpp"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

using namespace baton;

namespace {

constexpr cpu::kv_shape kv_memory_shape{2, 3, 64, cpu::kv_format::f16};
constexpr std::uint32_t memory_blocks = 8;

cpu::kv_memory share(int fd) {
  auto shared = cpu::kv_memory::share(kv_memory_shape, memory_blocks, fd, {1, 0, 0});
  REQUIRE_MESSAGE(shared, shared.error().message);
  return *std::move(shared);
}

std::vector<std::uint32_t> first_uses(cpu::kv_memory& kv, const std::vector<std::uint32_t>& used) {
  std::vector<std::uint32_t> found;
  kv.first_uses(used, found);
  return found;
}

long faults() {
  rusage facts{};
  REQUIRE(::getrusage(RUSAGE_THREAD, &facts) == 0);
  return facts.ru_minflt;
}

// Its pages stay in the file; this process no longer maps them.
void unmap(std::span<std::byte> block) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(block.data()), end = begin + block.size();
  const auto first = (begin + page - 1) / page * page, last = end / page * page;
  REQUIRE(first < last);
  REQUIRE(::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED) == 0);
}

} // namespace

TEST_CASE("each process uses a block of the file for the first time exactly once") {
  const int fd = ::memfd_create("kv", MFD_CLOEXEC);
  REQUIRE(fd >= 0);
  auto kv = share(fd);
  CHECK(first_uses(kv, {5, 2}) == std::vector<std::uint32_t>{2, 5});
  CHECK(first_uses(kv, {5, 2}).empty());
  CHECK(first_uses(kv, {5, 2, 7}) == std::vector<std::uint32_t>{7});
  CHECK(first_uses(kv, {5, 3}) == std::vector<std::uint32_t>{3}); // a shared prefix
  CHECK(first_uses(kv, {}).empty());
  auto reopened = share(fd);
  CHECK(reopened.incarnation() == kv.incarnation());
  CHECK(first_uses(reopened, {5, 2}) == std::vector<std::uint32_t>{2, 5});
  ::close(fd);
}

TEST_CASE("memory without a file needs no prefaulting") {
  auto kv = cpu::kv_memory::take(kv_memory_shape, memory_blocks);
  REQUIRE_MESSAGE(kv, kv.error().message);
  CHECK(first_uses(*kv, {0, 1}).empty());
}

TEST_CASE("prefaulted memory is touched without a page fault, and keeps its contents") {
  const int fd = ::memfd_create("kv", MFD_CLOEXEC);
  REQUIRE(fd >= 0);
  {
    auto kv = share(fd);
    std::memset(kv.block(3).data(), 7, kv.block(3).size());
  }
  auto kv = share(fd);
  const auto block = kv.block(3);
  std::size_t wrong = 0;
  const auto touch = [&] {
    for (auto& byte : block)
      wrong += byte != std::byte{7};
    block.front() = std::byte{7};
  };
  const auto faults_of_touch = [&] {
    const long before = faults();
    touch();
    return faults() - before;
  };
  touch(); // a sanitizer's shadow memory exists from here on
  unmap(block);
  CHECK(faults_of_touch() > 0);
  unmap(block);
  cpu::large_memory::prefault(block);
  CHECK(faults_of_touch() == 0);
  CHECK(wrong == 0);
  ::close(fd);
}
