// The tile registers of AMX and the instructions on them, in assembly: GCC 12 takes no template
// arguments in its own names for them. Included by kernels_amx.cpp alone; internal linkage keeps
// its code out of files compiled for lesser CPUs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace baton::cpu {
namespace {

// What a tile register holds: up to 16 rows of up to 64 bytes.
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

// Tiles have shapes while this lives. Released afterwards, so that a thread which is switched out
// has no 8 KiB of them to save.
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
// The operations of matmul_bf16_body.hpp over a block: a has rows of k, b pairs of k of 16 outputs.
template <int Sums, int A, int B>
[[gnu::always_inline]] inline void tile_dot_bf16() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(Sums), "i"(A), "i"(B));
}
// Exact sums in 32 bits of products of bytes, fours of k: those of b have no sign, those of a have
// one, or none.
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
