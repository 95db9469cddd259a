#include "tests/bench/product_rate.hpp"

#include "runtime/cpu/isa.hpp"
#include "runtime/cpu/thread_team.hpp"

#include <chrono>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace baton {
namespace {

#if defined(__x86_64__)

constexpr int sums = 20; // that do not wait for one another: more than latency times ports
constexpr int repeats = 1 << 20;

// In assembly: of its own names for some of these GCC 12 makes copies beside each, and a limit that
// a compiler has lowered is none.
template <product What>
[[gnu::always_inline, gnu::target("avx512f")]] inline void multiply_add(__m512i& sum, __m512i a,
                                                                        __m512i b) {
  if constexpr (What == product::bytes)
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  else if constexpr (What == product::words)
    asm("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  else if constexpr (What == product::pairs)
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  else
    asm("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
}

template <product What>
[[gnu::target("avx512f")]] void multiply_add_all() {
  __m512i sum[sums];
#pragma GCC unroll 20
  for (int k = 0; k < sums; ++k)
    sum[k] = _mm512_setzero_si512();
  // Small numbers in every type: bytes, words, pairs of bf16 and floats.
  __m512i a = _mm512_set1_epi32(0x3F003F00), b = a;
  for (int i = 0; i < repeats; ++i) {
#pragma GCC unroll 20
    for (int k = 0; k < sums; ++k)
      multiply_add<What>(sum[k], a, b);
    asm volatile("" : "+v"(a), "+v"(b)); // every turn counts for the compiler
  }
#pragma GCC unroll 20
  for (int k = 0; k < sums; ++k)
    asm volatile("" ::"v"(sum[k]));
}

struct way {
  void (*run)();
  std::uint32_t products; // of one instruction
};

way way_of(product what) {
  switch (what) {
  case product::bytes:
    return {multiply_add_all<product::bytes>, 64};
  case product::words:
    return {multiply_add_all<product::words>, 32};
  case product::pairs:
    return {multiply_add_all<product::pairs>, 32};
  case product::floats:
    break;
  }
  return {multiply_add_all<product::floats>, 16};
}

std::vector<double> measure(std::uint32_t threads, product what, int rounds) {
  cpu::thread_team team(threads, {});
  const way chosen = way_of(what);
  const double products = 1.0 * threads * repeats * sums * chosen.products;
  std::vector<double> measured;
  for (int r = 0; r < rounds; ++r) {
    const auto begin = std::chrono::steady_clock::now();
    team.run([&](unsigned) { chosen.run(); });
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    measured.push_back(products / time.count() / 1e9);
  }
  return measured;
}

#else

std::vector<double> measure(std::uint32_t, product, int) {
  return {};
}

#endif

} // namespace

std::vector<double> measure_product_rate(std::uint32_t threads, product what, int rounds) {
  const auto needed = what == product::pairs ? cpu::isa::avx512_bf16 : cpu::isa::avx512_vnni;
  if (!cpu::is_available(needed))
    return {};
  return measure(threads, what, rounds);
}

} // namespace baton
