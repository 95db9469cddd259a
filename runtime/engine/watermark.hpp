// Selects the vocabulary's green tokens after a given token, for a watermark (Kirchenbauer et al.,
// A Watermark for Large Language Models, ICML 2023, arXiv 2301.10226). An integer function of the
// two ids alone, so a repeated step and a detector get the same result. Called by the sampler;
// sdk/python/baton_client/watermark.py is the detector.
#pragma once

#include "schema/ids.hpp"

#include <cstdint>

namespace baton::engine {

// Each token is green independently with probability gamma, instead of a list of exactly that
// share: a detector needs no vocabulary.
class green_list {
public:
  // Requires: gamma in [0, 1].
  constexpr green_list(token_id previous, float gamma) noexcept
      : state_(mix(key + static_cast<std::uint32_t>(previous))),
        below_(static_cast<std::uint64_t>(static_cast<double>(gamma) * 0x1p32)) {}

  constexpr bool contains(token_id token) const noexcept {
    return mix(state_ ^ static_cast<std::uint32_t>(token)) >> 32 < below_;
  }

private:
  static constexpr std::uint64_t key = 15485863; // the authors': the millionth prime

  // The finalizer of SplitMix64 (Steele, Lea, Flood 2014).
  static constexpr std::uint64_t mix(std::uint64_t x) noexcept {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }

  std::uint64_t state_;
  std::uint64_t below_; // times 2^-32
};

} // namespace baton::engine
