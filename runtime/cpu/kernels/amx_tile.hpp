// The tile registers of AMX and their instructions, in assembly, because GCC 12's intrinsics accept
// no template arguments. Included only by kernels_amx.cpp; internal linkage keeps this code out of
// files compiled for older CPUs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace baton::cpu {
namespace {

// The tile configuration: each register has up to 16 rows of up to 64 bytes.
struct alignas(64) tile_shapes {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  void set(int tile, std::size_t tile_rows, std::size_t bytes) {
    rows[tile] = static_cast<std::uint8_t>(tile_rows);
    row_bytes[tile] = static_cast<std::uint16_t>(bytes);
  }
};
static_assert(sizeof(tile_shapes) == 64);

// Configures the tiles for its lifetime. Releasing them spares the kernel from saving 8 KiB of tile
// data at a context switch.
class tiles_in_use {
public:
  explicit tiles_in_use(const tile_shapes& shapes) { asm volatile("ldtilecfg %0" ::"m"(shapes)); }
  ~tiles_in_use() { asm volatile("tilerelease" ::: "memory"); }
  tiles_in_use(const tiles_in_use&) = delete;
  tiles_in_use& operator=(const tiles_in_use&) = delete;
};

template <int T>
[[gnu::always_inline]] inline void tile_zero() {
  asm volatile("tilezero %%tmm%c0" ::"i"(T));
}
template <int T>
[[gnu::always_inline]] inline void tile_load(const std::byte* from, std::size_t stride) {
  asm volatile("tileloadd (%1,%2,1), %%tmm%c0" ::"i"(T), "r"(from), "r"(stride) : "memory");
}
template <int T>
[[gnu::always_inline]] inline void tile_store(std::byte* to, std::size_t stride) {
  asm volatile("tilestored %%tmm%c0, (%1,%2,1)" ::"i"(T), "r"(to), "r"(stride) : "memory");
}
// Operations of matmul_bf16_body.hpp over a block: a has rows of k, b pairs of k for 16 outputs.
template <int Sums, int A, int B>
[[gnu::always_inline]] inline void tile_dot_bf16() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(Sums), "i"(A), "i"(B));
}
// Exact 32-bit sums of products of bytes, in groups of four k. The bytes of b are unsigned, those
// of a are signed or unsigned.
template <int Sums, int A, int B>
[[gnu::always_inline]] inline void tile_dot_signed() {
  asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(Sums), "i"(A), "i"(B));
}
template <int Sums, int A, int B>
[[gnu::always_inline]] inline void tile_dot_unsigned() {
  asm volatile("tdpbuud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(Sums), "i"(A), "i"(B));
}

} // namespace
} // namespace baton::cpu
