// The bf16 product on AMX tiles, bit-equal to matmul_bf16_body.hpp. Compiled with this ISA's flags:
// the file includes no library code, which the linker could share with files for older CPUs.
#include "runtime/cpu/kernels/amx_tile.hpp"
#include "runtime/cpu/kernels/denormals_flushed.hpp"
#include "runtime/cpu/kernels/kernel_tables.hpp"

#include <cstring>
#include <initializer_list>

namespace baton::cpu {
namespace {

constexpr std::size_t tile_rows = 16;
constexpr std::size_t group_rows = 2 * tile_rows; // two tiles of rows, two of outputs
constexpr std::size_t rows_min = 4;               // below, vectors are faster
constexpr std::size_t row_vector = 16;            // floats
constexpr std::size_t record_bytes = layout_of(panel_format::bf16).record_bytes();
static_assert(arranged_rows % group_rows == 0);

// Registers: sums of rows 0 and 16 by outputs 0 and 16, then rows, then outputs.
constexpr int sums_00 = 0, sums_01 = 1, sums_10 = 2, sums_11 = 3;
constexpr int rows_0 = 4, rows_1 = 5, outputs_0 = 6, outputs_1 = 7;

std::size_t row_bytes(const matmul_args& args) {
  return (args.blocks + 1) * block_columns * sizeof(std::uint16_t); // stride is no power of two
}

// Rounds to the nearest bf16, ties to even, denormals to zero.
void round_rows(const matmul_args& args, std::size_t first, std::size_t rows) {
  for (std::size_t m = 0; m < rows; ++m) {
    const auto* from =
        reinterpret_cast<const float*>(args.activations + (first + m) * args.activation_stride);
    std::byte* to = args.scratch + m * row_bytes(args);
    for (std::size_t b = 0; b < args.blocks; ++b, from += block_columns, to += 64) {
      const __m512bh both =
          _mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + row_vector), _mm512_loadu_ps(from));
      std::memcpy(to, &both, sizeof both);
    }
  }
}

template <bool HasSecond>
void accumulate(const matmul_args& args, const std::byte* panel, const std::byte* a,
                std::size_t prefetched_lines) {
  const std::size_t stride = row_bytes(args);
  const std::byte* next = panel + args.blocks * record_bytes;
  tile_zero<sums_00>();
  tile_zero<sums_01>();
  if constexpr (HasSecond) {
    tile_zero<sums_10>();
    tile_zero<sums_11>();
  }
  for (std::size_t b = 0; b < args.blocks; ++b, panel += record_bytes, a += 64) {
    for (std::size_t i = 0; i < prefetched_lines; ++i, next += 64)
      _mm_prefetch(next, _MM_HINT_T0);
    tile_load<rows_0>(a, stride);
    tile_load<outputs_0>(panel, 128);
    tile_dot_bf16<sums_00, rows_0, outputs_0>();
    tile_load<outputs_1>(panel + 64, 128);
    tile_dot_bf16<sums_01, rows_0, outputs_1>();
    if constexpr (HasSecond) {
      tile_load<rows_1>(a + tile_rows * stride, stride);
      tile_dot_bf16<sums_10, rows_1, outputs_0>();
      tile_dot_bf16<sums_11, rows_1, outputs_1>();
    }
  }
}

template <bool HasSecond>
void store(std::byte* to, std::size_t stride) {
  tile_store<sums_00>(to, stride);
  tile_store<sums_01>(to + 64, stride);
  if constexpr (HasSecond) {
    tile_store<sums_10>(to + tile_rows * stride, stride);
    tile_store<sums_11>(to + tile_rows * stride + 64, stride);
  }
}

// One group of rows of one panel; rows before `done` were stored by the previous group.
template <bool HasSecond>
void multiply_group(const matmul_args& args, const std::byte* panel, const std::byte* a, float* out,
                    std::size_t rows, std::size_t done, std::size_t prefetched_lines) {
  accumulate<HasSecond>(args, panel, a, prefetched_lines);
  if (!args.adds)
    return store<HasSecond>(reinterpret_cast<std::byte*>(out), args.out_stride * sizeof(float));
  alignas(64) float sums[group_rows * panel_rows];
  store<HasSecond>(reinterpret_cast<std::byte*>(sums), panel_rows * sizeof(float));
  for (std::size_t m = done; m < rows; ++m)
    for (std::size_t i = 0; i < panel_rows; i += row_vector) {
      float* to = out + m * args.out_stride + i;
      _mm512_storeu_ps(
          to, _mm512_add_ps(_mm512_loadu_ps(to), _mm512_loadu_ps(sums + m * panel_rows + i)));
    }
}

// Rows [begin, begin + rows) of the call; rows before `done` are already stored.
template <bool HasSecond>
void multiply_pass(const matmul_args& args, std::size_t begin, std::size_t rows, std::size_t done) {
  const std::byte* panel = args.panels;
  for (std::size_t p = 0; p < args.panel_count; ++p, panel += args.blocks * record_bytes)
    for (std::size_t m = 0; m < rows; m += group_rows) {
      // The last group overlaps the previous one.
      const std::size_t at = m + group_rows > rows && rows > group_rows ? rows - group_rows : m;
      const std::size_t stored = (done > begin + m ? done - begin : m) - at;
      const std::size_t left = rows - at;
      multiply_group<HasSecond>(args, panel, args.scratch + at * row_bytes(args),
                                args.out + (begin + at) * args.out_stride + p * panel_rows,
                                left < group_rows ? left : group_rows, stored,
                                begin + m == 0 ? record_bytes / 64 : 0);
    }
}

void matmul_bf16_amx(const matmul_args& args) {
  if (args.rows < rows_min)
    return matmul_bf16_by_pairs(args);
  const std::size_t group = args.rows < group_rows ? args.rows : group_rows;
  const bool has_second = group > tile_rows;
  const std::size_t first_rows = has_second ? tile_rows : group;
  const std::size_t second_rows = has_second ? group - tile_rows : 1;
  tile_shapes shapes;
  for (const int tile : {sums_00, sums_01, rows_0})
    shapes.set(tile, first_rows, 64);
  for (const int tile : {sums_10, sums_11, rows_1})
    shapes.set(tile, second_rows, 64);
  for (const int tile : {outputs_0, outputs_1})
    shapes.set(tile, tile_rows, 64);
  const tiles_in_use tiles(shapes);
  const denormals_flushed scope;
  for (std::size_t done = 0; done < args.rows;) {
    const std::size_t left = args.rows - done;
    std::size_t rows = left < arranged_rows ? left : arranged_rows;
    if (rows < group_rows && args.rows > group_rows)
      rows = group_rows; // overlaps rows already stored
    const std::size_t begin = done + rows > args.rows ? args.rows - rows : done;
    round_rows(args, begin, rows);
    if (has_second)
      multiply_pass<true>(args, begin, rows, done);
    else
      multiply_pass<false>(args, begin, rows, done);
    done = begin + rows;
  }
}

} // namespace

void take_amx_products(kernels& table) {
  for (auto& product : table.matmul[static_cast<std::size_t>(panel_format::bf16)])
    product = &matmul_bf16_amx;
}

} // namespace baton::cpu
