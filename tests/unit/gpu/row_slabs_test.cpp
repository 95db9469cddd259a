// Memory for the rows that leave a stage: reused, bounded, and never handed out twice.
#include "runtime/gpu/stage/row_slabs.hpp"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <thread>

using namespace baton::gpu;

namespace {

constexpr std::uint64_t kib = 1024;

// Memory that counts how much of it is allocated.
struct counted {
  std::uint64_t now = 0, most = 0, times = 0;

  buffer take(std::uint64_t bytes) {
    now += bytes;
    most = std::max(most, now);
    ++times;
    return {std::shared_ptr<void>(::operator new(bytes), [this, bytes](void* p) {
      now -= bytes;
      ::operator delete(p);
    })};
  }
};

} // namespace

TEST_CASE("a returned slab is handed out again, a slab in use never") {
  counted memory;
  row_slabs slabs([&](std::uint64_t bytes) { return memory.take(bytes); }, 1024 * kib);
  float* const first = slabs.take(10);
  float* const second = slabs.take(10);
  REQUIRE(first);
  REQUIRE(second);
  CHECK(first != second);
  slabs.give_back(first);
  CHECK(slabs.take(64 * kib) == first); // at least one page each
  CHECK(memory.times == 2);
}

TEST_CASE("memory stays within its limit: small slabs make room for large ones, used ones stay") {
  counted memory;
  row_slabs slabs([&](std::uint64_t bytes) { return memory.take(bytes); }, 256 * kib);
  float* const small = slabs.take(kib);
  float* const other = slabs.take(kib);
  slabs.give_back(other);
  CHECK(slabs.take(200 * kib) == nullptr); // `small` is in use
  float* const large = slabs.take(128 * kib);
  CHECK(large != nullptr);
  slabs.give_back(small);
  CHECK(slabs.take(128 * kib) != nullptr);
  CHECK(slabs.take(kib) == nullptr);
  CHECK(memory.most <= 256 * kib);
}

TEST_CASE("slabs can be returned by other threads") {
  counted memory;
  row_slabs slabs([&](std::uint64_t bytes) { return memory.take(bytes); }, 4096 * kib);
  std::mt19937 dice(7);
  std::map<float*, int> out;
  for (int i = 0; i < 2000; ++i) {
    const auto bytes = 1 + dice() % (300 * kib);
    if (float* slab = slabs.take(bytes)) {
      CHECK(out.emplace(slab, i).second);
      slab[0] = 1;
      slab[(bytes - 1) / sizeof(float)] = 2;
    }
    if (!out.empty() && dice() % 3 != 0) {
      auto* const back = out.begin()->first;
      out.erase(out.begin());
      std::thread([&] { slabs.give_back(back); }).join();
    }
  }
  CHECK(memory.most <= 4096 * kib);
}
