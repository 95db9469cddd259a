// How many products this processor adds per second. This bounds prefill and large batches, because
// the weights are read once for many rows there.
#pragma once

#include <cstdint>
#include <vector>

namespace baton {

enum class product : std::uint8_t {
  bytes,  // vpdpbusd: 8-bit activations
  words,  // vpdpwssd: 16-bit activations
  pairs,  // vdpbf16ps: bf16 weights
  floats, // vfmadd: 16- and 32-bit weights
};

// Billions of multiply-adds per second by `threads` threads, one on each of the first cores, once
// per round, with AVX-512 on registers alone. `scalings`: vfmadd after the products of each 32 k
// for every output, at most scalings_max, since blocks of quantised weights have their own scales.
// Empty without such instructions. A round takes about 20 ms.
inline constexpr std::uint32_t scalings_max = 4;
std::vector<double> measure_product_rate(std::uint32_t threads, product what,
                                         std::uint32_t scalings, int rounds);

} // namespace baton
