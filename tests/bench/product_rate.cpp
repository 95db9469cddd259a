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

template <std::uint32_t Bits>
__attribute__((target("avx512f,avx512bw,avx512vnni"))) void multiply_add() {
  __m512i sum[sums];
  for (auto& s : sum)
    s = _mm512_setzero_si512();
  __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(5);
  for (int i = 0; i < repeats; ++i) {
#pragma GCC unroll 20
    for (int k = 0; k < sums; ++k)
      sum[k] = Bits == 8 ? _mm512_dpbusd_epi32(sum[k], a, b) : _mm512_dpwssd_epi32(sum[k], a, b);
    asm volatile("" : "+v"(a), "+v"(b)); // every turn counts for the compiler
  }
  for (auto& s : sum)
    asm volatile("" ::"v"(s));
}

std::vector<double> measure(std::uint32_t threads, std::uint32_t bits, int rounds) {
  cpu::thread_team team(threads, {});
  const double products = 1.0 * threads * repeats * sums * (512 / bits);
  std::vector<double> measured;
  for (int r = 0; r < rounds; ++r) {
    const auto begin = std::chrono::steady_clock::now();
    team.run([bits](unsigned) {
      bits == 8 ? multiply_add<8>() : bits == 16 ? multiply_add<16>() : multiply_add_floats();
    });
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    measured.push_back(products / time.count() / 1e9);
  }
  return measured;
}

#else

std::vector<double> measure(std::uint32_t, std::uint32_t, int) {
  return {};
}

#endif

} // namespace

std::vector<double> measure_product_rate(std::uint32_t threads, std::uint32_t bits, int rounds) {
  if (!cpu::is_available(cpu::isa::avx512_vnni))
    return {};
  return measure(threads, bits, rounds);
}

} // namespace baton
