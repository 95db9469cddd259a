// Which instruction set the kernels run on: detected once at load, or forced by tests. All of them
// give the same bits, so the choice is one of speed alone.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace baton::cpu {

enum class isa : std::uint8_t {
  portable = 0,    // any CPU
  avx2 = 1,        // with FMA and F16C
  avx512_vnni = 2, // F, BW, DQ, VL and VNNI
  avx512_bf16 = 3, // the same, with products of bf16
  amx = 4,         // the same, with VBMI and tiles of bf16 and of bytes
};

// From the least to the best.
inline constexpr std::array isas{isa::portable, isa::avx2, isa::avx512_vnni, isa::avx512_bf16,
                                 isa::amx};

// The best that this CPU and its operating system can run. avx512_bf16 on AMD's CPUs alone: Intel's
// take two cycles for a product instruction, and those of float32 are faster.
isa detect_isa() noexcept;
// Asks the system for the use of tiles, once, where the CPU has them.
bool is_available(isa wanted) noexcept;
std::string_view name_of(isa which) noexcept;
// "portable", "avx2", "avx512-vnni", "avx512-bf16", "amx"; nothing for any other name.
std::optional<isa> isa_from(std::string_view name) noexcept;

} // namespace baton::cpu
