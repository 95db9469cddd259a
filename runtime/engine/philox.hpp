// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3, SC 2011):
// a counter-based generator. Randomness is a function of (key, counter) with no state between
// calls, so a repeated step draws the same token. Used by the sampler.
#pragma once

#include <array>
#include <cstdint>

namespace baton::engine {

using philox_counter = std::array<std::uint32_t, 4>;
using philox_key = std::array<std::uint32_t, 2>;

constexpr philox_counter philox4x32(philox_counter counter, philox_key key) noexcept {
  constexpr std::uint64_t multiplier_0 = 0xD2511F53, multiplier_1 = 0xCD9E8D57;
  constexpr std::uint32_t weyl_0 = 0x9E3779B9, weyl_1 = 0xBB67AE85;
  constexpr int rounds = 10; // the paper's choice for a margin over the 7 that pass BigCrush
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t p0 = multiplier_0 * counter[0];
    const std::uint64_t p1 = multiplier_1 * counter[2];
    counter = {
        static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(p1),
        static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key = {key[0] + weyl_0, key[1] + weyl_1};
  }
  return counter;
}

// Uniform in [0, 1) with 53 random bits: one draw of one sequence.
constexpr double uniform(std::uint64_t seed, std::uint32_t token_index) noexcept {
  const auto bits = philox4x32({token_index, 0, 0, 0}, {static_cast<std::uint32_t>(seed),
                                                        static_cast<std::uint32_t>(seed >> 32)});
  const std::uint64_t joined = (std::uint64_t{bits[1]} << 32 | bits[0]) >> 11;
  return static_cast<double>(joined) * 0x1p-53;
}

} // namespace baton::engine
