// The instruction set of the kernels: detected once at load, or forced by tests. All of them give
// the same bits; they differ only in speed.
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
  avx512_bf16 = 3, // the same, with bf16 products
  amx = 4,         // the same, with VBMI and tiles of bf16 and int8
};

// From worst to best.
inline constexpr std::array isas{isa::portable, isa::avx2, isa::avx512_vnni, isa::avx512_bf16,
                                 isa::amx};

// The best set that this CPU and its operating system support. avx512_bf16 only on AMD: on Intel
// its product takes two cycles, and float32 products are faster.
isa detect_isa() noexcept;
// Requests permission for AMX tiles once, if the CPU has them.
bool is_available(isa wanted) noexcept;
std::string_view name_of(isa which) noexcept;
// "portable", "avx2", "avx512-vnni", "avx512-bf16", "amx"; empty for any other name.
std::optional<isa> isa_from(std::string_view name) noexcept;

} // namespace baton::cpu
