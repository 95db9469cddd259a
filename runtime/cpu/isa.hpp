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
  amx = 3,         // tiles of bf16, beside AVX-512 with VNNI and BF16
};

// From the least to the best.
inline constexpr std::array isas{isa::portable, isa::avx2, isa::avx512_vnni, isa::amx};

// The best that this CPU and its operating system can run.
isa detect_isa() noexcept;
// Asks the system for the use of tiles, once, where the CPU has them.
bool is_available(isa wanted) noexcept;
std::string_view name_of(isa which) noexcept;
// "portable", "avx2", "avx512-vnni", "amx"; nothing for any other name.
std::optional<isa> isa_from(std::string_view name) noexcept;

} // namespace baton::cpu
