// The bf16 product with VDPBF16PS, bit-equal to matmul_bf16_body.hpp. Compiled with this ISA's
// flags: the file includes no library code, which the linker could share with files for older CPUs.
//
// The instruction adds two products to a sum, one fma each: first the upper half of 32 bits, then
// the lower (Intel SDM, VDPBF16PS); denormals are zero. The sum of even k needs the order k = 0, 2,
// 4, ..., so its pairs are (2, 0), (6, 4), ..., from the lower half on. For odd k they are (3, 1),
// (7, 5), ...
#include "runtime/cpu/kernels/denormals_flushed.hpp"
#include "runtime/cpu/kernels/kernel_tables.hpp"
#include "runtime/cpu/kernels/matmul_bf16_body.hpp"

#include <immintrin.h>

#include <cstring>

namespace baton::cpu {
namespace {

constexpr int vectors = 2; // of 16 outputs, one panel together
constexpr std::size_t vector_bytes = 64;

// A vector of pairs (k + 2, k), and one of (k + 3, k + 1).
struct paired {
  __m512bh even, odd;
};

// Combines pairs (k, k + 1) and (k + 2, k + 3) from a panel.
[[gnu::always_inline]] inline paired pair_up(const std::byte* w) {
  constexpr __mmask32 lower_halves = 0x55555555;
  const __m512i first = _mm512_loadu_si512(w);
  const __m512i second = _mm512_loadu_si512(w + vectors * vector_bytes);
  const __m512i even = _mm512_mask_blend_epi16(lower_halves, _mm512_slli_epi32(first, 16), second);
  const __m512i odd = _mm512_mask_blend_epi16(lower_halves, first, _mm512_srli_epi32(second, 16));
  return {reinterpret_cast<__m512bh>(even), reinterpret_cast<__m512bh>(odd)};
}

[[gnu::always_inline]] inline __m512bh broadcast_pair(const std::byte* a) {
  std::int32_t pair;
  std::memcpy(&pair, a, sizeof pair);
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
}

struct bf16_by_pairs {
  // The best of 3 to 6, measured on a Zen 4: 97 % of the instruction's peak rate.
  static constexpr int rows = 4;
  using flushing = denormals_flushed;

  static std::size_t row_bytes(std::size_t blocks) {
    return (blocks + 1) * block_columns * sizeof(std::uint16_t); // stride is no power of two
  }

  // To the nearest bf16, ties to even, denormals to zero; each group of four in order 2, 0, 3, 1.
  static void round(const matmul_args& args, std::size_t first, std::size_t count) {
    constexpr int order = 2 | 0 << 2 | 3 << 4 | 1 << 6;
    for (std::size_t m = 0; m < count; ++m) {
      const auto* from =
          reinterpret_cast<const float*>(args.activations + (first + m) * args.activation_stride);
      std::byte* to = args.scratch + m * row_bytes(args.blocks);
      for (std::size_t b = 0; b < args.blocks; ++b, from += block_columns, to += vector_bytes) {
        const auto words = reinterpret_cast<__m512i>(
            _mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + 16), _mm512_loadu_ps(from)));
        _mm512_storeu_si512(to,
                            _mm512_shufflehi_epi16(_mm512_shufflelo_epi16(words, order), order));
      }
    }
  }

  template <int MR>
  [[gnu::noinline]] static void multiply(const std::byte* w, std::size_t blocks, const std::byte* a,
                                         float* out, std::size_t out_stride, bool adds,
                                         prefetch_share ahead) {
    const std::size_t stride = row_bytes(blocks);
    __m512 sum[MR][vectors];
#pragma GCC unroll 8
    for (int m = 0; m < MR; ++m)
#pragma GCC unroll 2
      for (int i = 0; i < vectors; ++i)
        sum[m][i] = _mm512_setzero_ps();
    // The next panel is prefetched a few lines at a time, because all at once would exceed the
    // core's outstanding loads.
    constexpr int parts_of_block = block_columns / 4;
    const int ahead_lines = (ahead.lines_per_block + parts_of_block - 1) / parts_of_block;
    for (std::size_t b = 0; b < blocks; ++b) {
      int ahead_left = ahead.lines_per_block;
      __m512 even[MR][vectors], odd[MR][vectors];
#pragma GCC unroll 8
      for (int m = 0; m < MR; ++m)
#pragma GCC unroll 2
        for (int i = 0; i < vectors; ++i)
          even[m][i] = odd[m][i] = _mm512_setzero_ps();
#pragma GCC unroll 8
      for (std::size_t k = 0; k < block_columns; k += 4, w += 4 * vector_bytes, a += 8) {
        for (int i = 0; i < ahead_lines && ahead_left > 0; ++i, --ahead_left, ahead.next += 64)
          _mm_prefetch(ahead.next, _MM_HINT_T1);
        paired weights[vectors];
#pragma GCC unroll 2
        for (int i = 0; i < vectors; ++i)
          weights[i] = pair_up(w + static_cast<std::size_t>(i) * vector_bytes);
#pragma GCC unroll 8
        for (int m = 0; m < MR; ++m) {
          const std::byte* x = a + static_cast<std::size_t>(m) * stride;
          const __m512bh even_pair = broadcast_pair(x), odd_pair = broadcast_pair(x + 4);
#pragma GCC unroll 2
          for (int i = 0; i < vectors; ++i) {
            even[m][i] = _mm512_dpbf16_ps(even[m][i], weights[i].even, even_pair);
            odd[m][i] = _mm512_dpbf16_ps(odd[m][i], weights[i].odd, odd_pair);
          }
        }
      }
#pragma GCC unroll 8
      for (int m = 0; m < MR; ++m)
#pragma GCC unroll 2
        for (int i = 0; i < vectors; ++i)
          sum[m][i] = _mm512_add_ps(sum[m][i], _mm512_add_ps(even[m][i], odd[m][i]));
    }
#pragma GCC unroll 8
    for (int m = 0; m < MR; ++m)
#pragma GCC unroll 2
      for (int i = 0; i < vectors; ++i) {
        float* to = out + static_cast<std::size_t>(m) * out_stride + i * 16;
        _mm512_storeu_ps(to, adds ? _mm512_add_ps(_mm512_loadu_ps(to), sum[m][i]) : sum[m][i]);
      }
  }
};

} // namespace

void matmul_bf16_by_pairs(const matmul_args& args) {
  multiply_bf16<bf16_by_pairs>(args);
}

void take_bf16_products(kernels& table) {
  for (auto& product : table.matmul[static_cast<std::size_t>(panel_format::bf16)])
    product = &matmul_bf16_by_pairs;
}

} // namespace baton::cpu
