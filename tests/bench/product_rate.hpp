// How many products this processor adds up in a second: what prefill and large batches
// are bound by, since there the weights are read once for many rows.
#pragma once

#include <cstdint>
#include <vector>

namespace baton {

// Billions of multiply-adds a second of `threads` threads together, once per round, by AVX-512 VNNI
// on registers alone: bytes (vpdpbusd) for activations of 8 bits, words (vpdpwssd) for 16; 32:
// floats (vfmadd), which weights of 16 and 32 bits are multiplied as. Empty if this processor has
// no such instructions. A round takes about 20 ms.
std::vector<double> measure_product_rate(std::uint32_t threads, std::uint32_t bits, int rounds);

} // namespace baton
