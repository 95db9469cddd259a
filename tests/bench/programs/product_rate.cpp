#include "tests/bench/programs/product_rate.hpp"

#include "runtime/cpu/forward/thread_team.hpp"
#include "runtime/cpu/kernels/isa.hpp"
#include "runtime/cpu/panels/panel_format.hpp"
#include "schema/ensure.hpp"

#include <chrono>
#include <iterator>
#include <numeric>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace baton {
namespace {

constexpr std::uint32_t outputs = 16; // per instruction
constexpr int sums = 12;              // independent sums: more than latency times ports
constexpr int blocks = 1 << 18;

// Computes `blocks` blocks of `sums` vectors of outputs.
using way = void (*)();

#if defined(__x86_64__)

constexpr std::uint32_t products_of_instruction(product what) {
  return what == product::bytes ? 64 : what == product::floats ? 16 : 32;
}

// In assembly: GCC 12 adds register copies beside some of its own intrinsics, and a limit lowered
// by a compiler is no limit.
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

template <product What, std::uint32_t Scalings>
[[gnu::target("avx512f")]] void multiply_blocks() {
  constexpr auto steps = cpu::block_columns * outputs / products_of_instruction(What);
  __m512i sum[sums], scaled[sums];
#pragma GCC unroll 12
  for (int k = 0; k < sums; ++k)
    sum[k] = scaled[k] = _mm512_setzero_si512();
  // Small numbers in every type: bytes, words, pairs of bf16 and floats.
  __m512i a = _mm512_set1_epi32(0x3F003F00), b = a;
  for (int i = 0; i < blocks; ++i) {
#pragma GCC unroll 32
    for (std::size_t step = 0; step < steps; ++step)
#pragma GCC unroll 12
      for (int k = 0; k < sums; ++k)
        multiply_add<What>(sum[k], a, b);
#pragma GCC unroll 4
    for (std::uint32_t step = 0; step < Scalings; ++step)
#pragma GCC unroll 12
      for (int k = 0; k < sums; ++k)
        multiply_add<product::floats>(scaled[k], a, b);
    asm volatile("" : "+v"(a), "+v"(b)); // every turn counts for the compiler
  }
#pragma GCC unroll 12
  for (int k = 0; k < sums; ++k)
    asm volatile("" ::"v"(sum[k]), "v"(scaled[k]));
}

template <product What>
way way_of(std::uint32_t scalings) {
  constexpr way ways[] = {multiply_blocks<What, 0>, multiply_blocks<What, 1>,
                          multiply_blocks<What, 2>, multiply_blocks<What, 3>,
                          multiply_blocks<What, 4>};
  static_assert(std::size(ways) == scalings_max + 1);
  return ways[scalings];
}

way way_of(product what, std::uint32_t scalings) {
  switch (what) {
  case product::bytes:
    return way_of<product::bytes>(scalings);
  case product::words:
    return way_of<product::words>(scalings);
  case product::pairs:
    return way_of<product::pairs>(scalings);
  case product::floats:
    break;
  }
  return way_of<product::floats>(scalings);
}

#else

way way_of(product, std::uint32_t) {
  return nullptr; // no such instruction is available
}

#endif

std::vector<double> measure(std::uint32_t threads, way run, int rounds) {
  std::vector<int> cpus(threads); // as in the engine: two on one core would halve the rate
  std::iota(cpus.begin(), cpus.end(), 0);
  const double products = 1.0 * threads * blocks * sums * cpu::block_columns * outputs;
  std::vector<double> measured;
  std::thread measuring([&] { // a team pins its calling thread
    cpu::thread_team team(threads, cpus);
    for (int r = 0; r < rounds; ++r) {
      const auto begin = std::chrono::steady_clock::now();
      team.run([&](unsigned) { run(); });
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
      measured.push_back(products / time.count() / 1e9);
    }
  });
  measuring.join();
  return measured;
}

} // namespace

std::vector<double> measure_product_rate(std::uint32_t threads, product what,
                                         std::uint32_t scalings, int rounds) {
  ENSURE(scalings <= scalings_max, "{} scalings of a block", scalings);
  const auto needed = what == product::pairs ? cpu::isa::avx512_bf16 : cpu::isa::avx512_vnni;
  if (!cpu::is_available(needed))
    return {};
  return measure(threads, way_of(what, scalings), rounds);
}

} // namespace baton
