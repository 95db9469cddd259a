// How many products this processor adds up in a second: what prefill and large batches
// are bound by, since there the weights are read once for many rows.
#pragma once

#include <cstdint>
#include <vector>

namespace baton {

// Billions of multiply-adds a second of `threads` threads together, once per round, by AVX-512 VNNI
// on registers alone. Empty if this processor has no such instructions. A round takes about 20 ms.
enum class product : std::uint8_t {
  bytes,  // vpdpbusd: activations of 8 bits
  words,  // vpdpwssd: of 16
  pairs,  // vdpbf16ps: weights of bf16
  floats, // vfmadd: weights of 16 and 32 bits
};
std::vector<double> measure_product_rate(std::uint32_t threads, product what, int rounds);

} // namespace baton
