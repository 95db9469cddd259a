// Writes and reads the records described in panel_format.hpp.
#include "runtime/cpu/panels/panel.hpp"

#include "runtime/cpu/panels/weight_block.hpp"
#include "schema/ensure.hpp"

#include <array>
#include <cstring>

namespace baton::cpu {
namespace {

// Byte index of output `o` for code k: groups of four k are contiguous.
std::size_t byte_at(std::size_t o, std::size_t k) {
  return k % 16 / 4 * 256 + k / 16 * 128 + o * 4 + k % 4;
}
std::size_t nibble_at(std::size_t o, std::size_t k) {
  return k % 16 / 4 * 128 + o * 4 + k % 4;
}

// Byte offset of an element of a float panel.
std::size_t float_at(panel_format format, std::size_t o, std::size_t k) {
  const std::size_t element =
      format == panel_format::bf16 ? (k / 2 * panel_rows + o) * 2 + k % 2 : k * panel_rows + o;
  return element * layout_of(format).element_bytes;
}

void write_scale(std::byte* scales, std::size_t o, float value, bool as_f16) {
  if (as_f16) {
    const std::uint16_t half = model::f32_to_f16(value); // exact: it was read from f16
    std::memcpy(scales + o * 2, &half, sizeof half);
  } else {
    std::memcpy(scales + o * 4, &value, sizeof value);
  }
}

float read_scale(const std::byte* scales, std::size_t o, bool as_f16) {
  if (as_f16) {
    std::uint16_t half = 0;
    std::memcpy(&half, scales + o * 2, sizeof half);
    return model::f16_to_f32(half);
  }
  float value = 0;
  std::memcpy(&value, scales + o * 4, sizeof value);
  return value;
}

// Stores codes four at a time; the loops over k become vector instructions.
void write_codes(const weight_block& block, const panel_layout& layout, std::size_t o,
                 std::byte* record) {
  std::array<std::uint8_t, block_columns> stored;
  if (layout.has_bytes) {
    for (std::size_t k = 0; k < block_columns; ++k)
      stored[k] = static_cast<std::uint8_t>(block.codes[k]) ^ 0x80U;
    for (std::size_t k = 0; k < block_columns; k += 4)
      std::memcpy(record + byte_at(o, k), stored.data() + k, 4);
    return;
  }
  for (std::size_t k = 0; k < block_columns / 2; ++k)
    stored[k] =
        static_cast<std::uint8_t>(block.codes[k] | block.codes[k + block_columns / 2] << 4U);
  for (std::size_t k = 0; k < block_columns / 2; k += 4)
    std::memcpy(record + nibble_at(o, k), stored.data() + k, 4);
}

// Scales, then mins: one per output, or one for each half of the block.
void write_block(const weight_block& block, const panel_layout& layout, std::size_t o,
                 std::byte* record) {
  write_codes(block, layout, o, record);
  std::byte* to = record + layout.code_bytes();
  const auto put = [&](const std::array<float, 2>& of_halves) {
    for (std::size_t i = 0; i < (layout.has_two_scales ? 2 : 1); ++i, to += layout.scale_bytes())
      write_scale(to, o, of_halves[i], layout.has_f16_scales);
  };
  put(block.scale);
  if (layout.has_min)
    put(block.min);
}

int read_code(const std::byte* record, const panel_layout& layout, const code_table* table,
              std::size_t o, std::size_t k) {
  if (layout.has_bytes)
    return std::to_integer<int>(record[byte_at(o, k)]) - 128;
  const auto both = std::to_integer<unsigned>(record[nibble_at(o, k)]);
  const unsigned code = k < 16 ? both & 15U : both >> 4U;
  if (layout.has_table)
    return table->codes[code] - 128;
  return static_cast<int>(code) - (layout.has_zero_point ? 8 : 0);
}

void unpack_floats(const packed_matrix& matrix, std::size_t row, float* out) {
  const std::byte* panel = matrix.panel(row / panel_rows);
  for (std::size_t k = 0; k < matrix.columns; ++k) {
    const std::byte* at = panel + float_at(matrix.format, row % panel_rows, k);
    if (matrix.format == panel_format::f32) {
      std::memcpy(out + k, at, sizeof(float));
      continue;
    }
    std::uint16_t half = 0;
    std::memcpy(&half, at, sizeof half);
    out[k] =
        matrix.format == panel_format::f16 ? model::f16_to_f32(half) : model::bf16_to_f32(half);
  }
}

} // namespace

void pack_panel(model::tensor_type type, const std::byte* rows, std::size_t row_count,
                std::size_t row_bytes, std::size_t columns, std::byte* panel) {
  const auto format = panel_format_of(type);
  ENSURE(format && row_count >= 1 && row_count <= panel_rows && columns % block_columns == 0,
         "a panel of {} rows and {} columns", row_count, columns);
  const panel_layout layout = layout_of(*format);
  if (row_count < panel_rows) // missing rows have weights of 0
    std::memset(panel, 0, columns / block_columns * layout.record_bytes());
  for (std::size_t o = 0; o < row_count; ++o) {
    const std::byte* row = rows + o * row_bytes;
    if (layout.is_float) {
      for (std::size_t k = 0; k < columns; ++k)
        std::memcpy(panel + float_at(*format, o, k), row + k * layout.element_bytes,
                    layout.element_bytes);
      continue;
    }
    for (std::size_t b = 0; b < columns / block_columns; ++b)
      write_block(read_weight_block(type, row, b), layout, o, panel + b * layout.record_bytes());
  }
}

void unpack_row(const packed_matrix& matrix, std::size_t row, float* out) {
  ENSURE(row < matrix.rows, "row {} of {}", row, matrix.rows);
  const panel_layout layout = layout_of(matrix.format);
  if (layout.is_float)
    return unpack_floats(matrix, row, out);
  const std::size_t o = row % panel_rows;
  const std::byte* record = matrix.panel(row / panel_rows);
  for (std::size_t b = 0; b < matrix.blocks(); ++b, record += layout.record_bytes()) {
    const std::byte* at = record + layout.code_bytes();
    const auto take = [&](bool is_there) {
      std::array<float, 2> of_halves{};
      for (std::size_t i = 0; is_there && i < 2; ++i) {
        of_halves[i] = read_scale(at, o, layout.has_f16_scales);
        at += i == 1 || layout.has_two_scales ? layout.scale_bytes() : 0;
      }
      return of_halves;
    };
    const auto scale = take(true), min = take(layout.has_min);
    for (std::size_t k = 0; k < block_columns; ++k) {
      const float product =
          scale[k / 16] * static_cast<float>(read_code(record, layout, matrix.table, o, k));
      out[b * block_columns + k] = layout.has_min ? product + min[k / 16] : product;
    }
  }
}

} // namespace baton::cpu
