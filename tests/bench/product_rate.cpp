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

__attribute__((target("avx512f"))) void multiply_add_floats() {
  __m512 sum[sums];
  for (auto& s : sum)
    s = _mm512_setzero_ps();
  __m512 a = _mm512_set1_ps(0.5f), b = _mm512_set1_ps(0.25f);
  for (int i = 0; i < repeats; ++i) {
#pragma GCC unroll 20
    for (int k = 0; k < sums; ++k)
      sum[k] = _mm512_fmadd_ps(a, b, sum[k]);
    asm volatile("" : "+v"(a), "+v"(b));
  }
  for (auto& s : sum)
    asm volatile("" ::"v"(s));
}

__attribute__((target("avx512f,avx512bf16"))) void multiply_add_pairs() {
  __m512 sum[sums];
  for (auto& s : sum)
    s = _mm512_setzero_ps();
  __m512i a = _mm512_set1_epi32(0x3F803F80), b = _mm512_set1_epi32(0x3F003F00);
  for (int i = 0; i < repeats; ++i) {
#pragma GCC unroll 20
    for (int k = 0; k < sums; ++k)
      sum[k] =
          _mm512_dpbf16_ps(sum[k], reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
    asm volatile("" : "+v"(a), "+v"(b));
  }
  for (auto& s : sum)
    asm volatile("" ::"v"(s));
}

template <product What>
__attribute__((target("avx512f,avx512bw,avx512vnni"))) void multiply_add() {
  __m512i sum[sums];
  for (auto& s : sum)
    s = _mm512_setzero_si512();
  __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(5);
  for (int i = 0; i < repeats; ++i) {
#pragma GCC unroll 20
    for (int k = 0; k < sums; ++k)
      sum[k] = What == product::bytes ? _mm512_dpbusd_epi32(sum[k], a, b)
                                      : _mm512_dpwssd_epi32(sum[k], a, b);
    asm volatile("" : "+v"(a), "+v"(b)); // every turn counts for the compiler
  }
  for (auto& s : sum)
    asm volatile("" ::"v"(s));
}

struct way {
  void (*run)();
  std::uint32_t products; // of one instruction
};

way way_of(product what) {
  switch (what) {
  case product::bytes:
    return {multiply_add<product::bytes>, 64};
  case product::words:
    return {multiply_add<product::words>, 32};
  case product::pairs:
    return {multiply_add_pairs, 32};
  case product::floats:
    break;
  }
  return {multiply_add_floats, 16};
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
