// How many products this processor adds up in a second: what prefill and large batches
// are bound by, since there the weights are read once for many rows.
#pragma once

#include <cstdint>
#include <vector>

namespace baton {

enum class product : std::uint8_t {
  bytes,  // vpdpbusd: activations of 8 bits
  words,  // vpdpwssd: of 16
  pairs,  // vdpbf16ps: weights of bf16
  floats, // vfmadd: weights of 16 and 32 bits
};

// Billions of multiply-adds a second of `threads` threads together, one on each of the first cores,
// once per round, by AVX-512 on registers alone. `scalings`: vfmadd that follow the products of
// each 32 k for every output, at most scalings_max: blocks of quantised weights have scales of
// their own. Empty if this processor has no such instructions. A round takes about 20 ms.
inline constexpr std::uint32_t scalings_max = 4;
std::vector<double> measure_product_rate(std::uint32_t threads, product what,
                                         std::uint32_t scalings, int rounds);

} // namespace baton
