// Products of quantised panels with 16-bit activations on AMX tiles, bit-equal to matmul_body.hpp:
// the dots of a block are exact, and the float operations are the same sequence. Compiled with this
// ISA's flags: the file includes no library code, which the linker could share with files for older
// CPUs.
//
// A tile instruction multiplies bytes. A value is split into a signed upper and an unsigned lower
// byte. A dot is 256 times the dot of the upper bytes plus that of the lower bytes. Three blocks
// are processed at a time with interleaved steps, because no step alone keeps the processor busy:
//
//   codes and bytes of rows → dots in tiles   an instruction for 16 rows x 16 outputs
//   dots in tiles → memory
//   dots → float32, scaled, added to the sums of the rows, by vectors of 16 outputs
//
// While tiles are in use, one of the two vector ports does no floating point. Integer byte shuffles
// and additions therefore replace float operations where possible.
#include "runtime/cpu/kernels/amx_tile.hpp"
#include "runtime/cpu/kernels/kernel_tables.hpp"

#include <immintrin.h>

#include <cstring>

namespace baton::cpu {
namespace {

constexpr std::size_t tile_rows = 16;
constexpr std::size_t halves = 2;           // of a panel: 16 outputs each
constexpr std::size_t block_bytes = 64;     // of a row, arranged
constexpr std::size_t code_row_bytes = 128; // four k of a panel's 32 outputs
constexpr std::size_t block_code_bytes = 8 * code_row_bytes;
constexpr std::size_t dots_bytes = tile_rows * 64; // of one tile
constexpr std::size_t blocks_per_part = 8;         // whose codes stay in the L1 cache
constexpr std::size_t rows_min = 12;               // below, vectors are faster

// Registers. Dot tiles: lower bytes with the first and second half of the outputs, then the same
// for upper bytes.
constexpr int dots_tiles = 4;
constexpr int rows_low = 4, rows_high = 5, outputs_0 = 6, outputs_1 = 7;

// The k of a row's bytes: groups of four alternate between k < 16 and k >= 16, as in byte panels.
constexpr std::size_t k_of(std::size_t byte) {
  return byte / 4 % 2 * 16 + byte / 8 * 4 + byte % 4;
}

struct byte_order {
  alignas(64) std::uint8_t at[64];
};

// Gathers the bytes of an activation block into a row: 32 lower bytes, then 32 upper bytes.
constexpr byte_order arranged_order() {
  byte_order order{};
  for (std::size_t i = 0; i < 64; ++i)
    order.at[i] = static_cast<std::uint8_t>(
        2 * activation_index(activation_width::bits16, k_of(i % 32)) + i / 32);
  return order;
}

template <panel_format Format>
struct tile_product {
  static constexpr panel_layout layout = layout_of(Format);
  static constexpr bool has_offset = layout.multiplies_bytes() || layout.has_zero_point;
  using block_type = activation_block<activation_width::bits16>;

  // Terms that the rows of a pass add to a block's sums, side by side. Separate records would cost
  // a cache line per row.
  struct block_terms {
    float scale[arranged_rows];
    float scaled_sum[arranged_rows];
    std::int32_t offset[arranged_rows]; // of the codes
  };

  // One block of one group of rows whose dots are complete.
  struct made {
    std::byte* dots;          // [lower, upper][half][16][16]
    const std::byte* scales;  // of the weights
    const block_terms* terms; // from `first` on
    std::size_t first, rows;
  };

  static std::size_t row_bytes(const matmul_args& args) {
    return (args.blocks + 1) * block_bytes; // stride is no power of two
  }
  static block_terms* terms_of(const matmul_args& args) {
    return reinterpret_cast<block_terms*>(args.scratch + arranged_rows * row_bytes(args));
  }

  // Arranges rows for tiles in the scratch memory.
  static void arrange(const matmul_args& args, std::size_t first, std::size_t rows) {
    // For one block; each further block needs less than it adds.
    static_assert(arranged_rows * 2 * block_bytes + sizeof(block_terms) <= matmul_scratch_bytes(1));
    static constexpr byte_order order = arranged_order();
    const __m512i byte_indices = _mm512_load_si512(order.at);
    for (std::size_t b = 0; b < args.blocks; ++b) {
      block_terms& terms = terms_of(args)[b];
      const std::byte* from =
          args.activations + first * args.activation_stride + b * sizeof(block_type);
      std::byte* to = args.scratch + b * block_bytes;
      for (std::size_t m = 0; m < rows;
           ++m, from += args.activation_stride, to += row_bytes(args)) {
        _mm512_storeu_si512(to, _mm512_permutexvar_epi8(byte_indices, _mm512_loadu_si512(from)));
        const auto& of = reinterpret_cast<const block_type*>(from)->terms;
        terms.scale[m] = of.scale;
        terms.scaled_sum[m] = of.scaled_sum;
        terms.offset[m] = layout.has_zero_point ? of.minus_8_sum : of.minus_128_sum;
      }
    }
  }

  // Unpacks the nibbles of a record into bytes in the order of k_of, or the numbers that they stand
  // for, with the offset of byte codes.
  static void unpack(const std::byte* record, [[maybe_unused]] const code_table* table,
                     std::byte* codes) {
    const __m512i low = _mm512_set1_epi8(15);
    __m512i numbers = _mm512_setzero_si512();
    if constexpr (layout.has_table)
      numbers =
          _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table->codes)));
    const auto number_of = [&](__m512i nibbles) __attribute__((always_inline)) {
      return layout.has_table ? _mm512_shuffle_epi8(numbers, nibbles) : nibbles;
    };
    for (std::size_t j = 0; j < 4; ++j)
      for (std::size_t half = 0; half < halves; ++half) {
        const __m512i both = _mm512_loadu_si512(record + j * code_row_bytes + half * 64);
        std::byte* to = codes + 2 * j * code_row_bytes + half * 64;
        _mm512_store_si512(to, number_of(_mm512_and_si512(both, low)));
        _mm512_store_si512(to + code_row_bytes,
                           number_of(_mm512_and_si512(_mm512_srli_epi16(both, 4), low)));
      }
  }

  // Steps 0 to dots_tiles - 1: stores a tile of dots, then computes that tile of the next block.
  template <int Step>
  [[gnu::always_inline]] static inline void cycle_tile(std::byte* finished, const std::byte* rows,
                                                       std::size_t stride, const std::byte* codes) {
    constexpr int row_tile = Step < 2 ? rows_low : rows_high;
    constexpr int output_tile = Step % 2 == 0 ? outputs_0 : outputs_1;
    tile_store<Step>(finished + Step * dots_bytes, 64);
    tile_zero<Step>();
    if constexpr (Step % 2 == 0)
      tile_load<row_tile>(rows + Step / 2 * 32, stride);
    if constexpr (Step < 2) {
      tile_load<output_tile>(codes + Step * 64, code_row_bytes);
      tile_dot_unsigned<Step, row_tile, output_tile>();
    } else {
      tile_dot_signed<Step, row_tile, output_tile>();
    }
  }

  [[gnu::always_inline]] static inline __m512 load_scale(const std::byte* p, std::size_t half) {
    if constexpr (layout.has_f16_scales)
      return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + half * 32)));
    else
      return _mm512_loadu_ps(p + half * 64);
  }

  // Terms shared by all rows of a block.
  struct weight_terms {
    __m512 scale[halves], min[halves];

    [[gnu::always_inline]] explicit weight_terms(const std::byte* scales) {
#pragma GCC unroll 2
      for (std::size_t half = 0; half < halves; ++half) {
        scale[half] = load_scale(scales, half);
        if constexpr (layout.has_min)
          min[half] = load_scale(scales + layout.scale_bytes(), half);
      }
    }
  };

  // sum = fma(float(dot), weight scale * activation scale, sum), then the min in the same way, for
  // rows [begin, end) of a group.
  [[gnu::always_inline]] static inline void finish(const made& m, const weight_terms& weights,
                                                   std::size_t begin, std::size_t end,
                                                   float* all_sums) {
    const __m512i upwards = _mm512_set4_epi32(0x0E0D0CFF, 0x0A0908FF, 0x060504FF, 0x020100FF);
    const std::byte* dots = m.dots + begin * 64;
    float* sums = all_sums + (m.first + begin) * panel_rows;
    for (std::size_t r = m.first + begin; r < m.first + end; ++r, dots += 64, sums += panel_rows) {
      const __m512 row_scale = _mm512_set1_ps(m.terms->scale[r]);
#pragma GCC unroll 2
      for (std::size_t half = 0; half < halves; ++half) {
        const __m512i upper = _mm512_load_si512(dots + (halves + half) * dots_bytes);
        __m512i dot = _mm512_add_epi32(_mm512_shuffle_epi8(upper, upwards), // 256 times
                                       _mm512_load_si512(dots + half * dots_bytes));
        if constexpr (has_offset)
          dot = _mm512_add_epi32(dot, _mm512_set1_epi32(m.terms->offset[r]));
        __m512 sum =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_mul_ps(weights.scale[half], row_scale),
                            _mm512_load_ps(sums + half * 16));
        if constexpr (layout.has_min)
          sum = _mm512_fmadd_ps(weights.min[half], _mm512_set1_ps(m.terms->scaled_sum[r]), sum);
        _mm512_store_ps(sums + half * 16, sum);
      }
    }
  }

  // All steps of a block, each with its share of the rows of `m`.
  template <int Step>
  [[gnu::always_inline]] static inline void
  steps_from(std::byte* finished, const std::byte* rows, std::size_t stride, const std::byte* codes,
             const made& m, const weight_terms& weights, float* sums) {
    cycle_tile<Step>(finished, rows, stride, codes);
    finish(m, weights, m.rows * Step / dots_tiles, m.rows * (Step + 1) / dots_tiles, sums);
    if constexpr (Step + 1 < dots_tiles)
      steps_from<Step + 1>(finished, rows, stride, codes, m, weights, sums);
  }

  template <int Step>
  [[gnu::always_inline]] static inline void store_tiles(std::byte* to) {
    tile_store<Step>(to + Step * dots_bytes, 64);
    if constexpr (Step + 1 < dots_tiles)
      store_tiles<Step + 1>(to);
  }

  static void store(const matmul_args& args, const float* sums, float* out, std::size_t rows) {
    for (std::size_t r = 0; r < rows; ++r, sums += panel_rows, out += args.out_stride)
      for (std::size_t i = 0; i < panel_rows; i += 16) {
        const __m512 sum = _mm512_load_ps(sums + i);
        _mm512_storeu_ps(out + i, args.adds ? _mm512_add_ps(_mm512_loadu_ps(out + i), sum) : sum);
      }
  }

  // Multiplies the arranged rows with one panel. `fetched`: prefetched lines per block of the next
  // panel.
  static void multiply_panel(const matmul_args& args, const std::byte* panel, std::size_t rows,
                             std::size_t group, float* out, std::size_t fetched) {
    alignas(64) float sums[arranged_rows * panel_rows];
    alignas(64) std::byte codes[blocks_per_part * block_code_bytes];
    alignas(64) std::byte dots[2][dots_tiles * dots_bytes];
    std::memset(sums, 0, rows * panel_rows * sizeof(float));
    const std::size_t stride = row_bytes(args);
    const std::byte* next = panel + args.blocks * layout.record_bytes();
    // Three blocks rotate: one is in the tiles, one is being stored, one is added to the sums.
    made begun{dots[0], panel + layout.code_bytes(), terms_of(args), 0, 0};
    made stored{dots[1], panel + layout.code_bytes(), terms_of(args), 0, 0};
    for (std::size_t part = 0; part < args.blocks; part += blocks_per_part) {
      const std::size_t left = args.blocks - part;
      const std::size_t blocks = left < blocks_per_part ? left : blocks_per_part;
      const std::byte* records = panel + part * layout.record_bytes();
      if constexpr (!layout.has_bytes)
        for (std::size_t b = 0; b < blocks; ++b)
          unpack(records + b * layout.record_bytes(), args.table, codes + b * block_code_bytes);
      for (std::size_t m = 0; m < rows; m += group) {
        const std::size_t count = rows - m < group ? rows - m : group;
        for (std::size_t b = 0; b < blocks; ++b) {
          if (m == 0)
            for (std::size_t i = 0; i < fetched; ++i, next += 64)
              _mm_prefetch(next, _MM_HINT_T1);
          const std::byte* record = records + b * layout.record_bytes();
          const made last = stored;
          stored = begun;
          begun = {last.dots, record + layout.code_bytes(), terms_of(args) + part + b, m, count};
          steps_from<0>(stored.dots, args.scratch + m * stride + (part + b) * block_bytes, stride,
                        layout.has_bytes ? record : codes + b * block_code_bytes, last,
                        weight_terms(last.scales), sums);
        }
      }
    }
    finish(stored, weight_terms(stored.scales), 0, stored.rows, sums);
    store_tiles<0>(begun.dots);
    finish(begun, weight_terms(begun.scales), 0, begun.rows, sums);
    store(args, sums, out, rows);
  }

  static void multiply(const matmul_args& args) {
    if (args.rows < rows_min)
      return kernels_avx512.matmul[static_cast<std::size_t>(Format)]
                                  [static_cast<std::size_t>(activation_width::bits16)](args);
    const std::size_t pass = args.rows < arranged_rows ? args.rows : arranged_rows;
    const std::size_t groups = (pass + tile_rows - 1) / tile_rows;
    const std::size_t group = (pass + groups - 1) / groups; // the last may have fewer rows
    tile_shapes shapes;
    for (int tile = 0; tile < dots_tiles; ++tile)
      shapes.set(tile, group, 64);
    for (const int tile : {rows_low, rows_high})
      shapes.set(tile, group, 32);
    for (const int tile : {outputs_0, outputs_1})
      shapes.set(tile, 8, 64);
    const tiles_in_use tiles(shapes);
    const std::size_t panel_bytes = args.blocks * layout.record_bytes();
    for (std::size_t first = 0; first < args.rows; first += pass) {
      const std::size_t left = args.rows - first;
      const std::size_t rows = left < pass ? left : pass;
      arrange(args, first, rows);
      for (std::size_t p = 0; p < args.panel_count; ++p)
        multiply_panel(args, args.panels + p * panel_bytes, rows, group,
                       args.out + first * args.out_stride + p * panel_rows,
                       first == 0 ? layout.record_bytes() / 64 : 0);
    }
  }
};

template <panel_format Format>
void take(kernels& table) {
  constexpr auto width = static_cast<std::size_t>(activation_width::bits16);
  table.matmul[static_cast<std::size_t>(Format)][width] = &tile_product<Format>::multiply;
}

} // namespace

void take_amx_quantised_products(kernels& table) {
  take<panel_format::nibble_zero_point>(table);
  take<panel_format::nibble_min>(table);
  take<panel_format::byte>(table);
  take<panel_format::byte_min>(table);
  take<panel_format::nibble_min_f32>(table);
  take<panel_format::byte_min_f32>(table);
  take<panel_format::table>(table);
  take<panel_format::table_f32>(table);
}

} // namespace baton::cpu
