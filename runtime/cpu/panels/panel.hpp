// Matrices as panels (panel_format.hpp): packs rows of a file into them, and reads a row back for
// the embedding. For loading and single rows only; the products are in kernels.hpp.
#pragma once

#include "runtime/cpu/panels/panel_format.hpp"
#include "runtime/model/tensors/tensor.hpp"

namespace baton::cpu {

// A view of packed weights [rows, columns]; the loader owns the memory.
struct packed_matrix {
  panel_format format = panel_format::f32;
  std::size_t rows = 0;
  std::size_t columns = 0; // a multiple of 32
  const std::byte* panels = nullptr;
  const code_table* table = nullptr; // code_table_of the type

  std::size_t panel_count() const noexcept { return (rows + panel_rows - 1) / panel_rows; }
  std::size_t blocks() const noexcept { return columns / block_columns; }
  std::size_t panel_bytes() const noexcept { return blocks() * layout_of(format).record_bytes(); }
  std::size_t size_bytes() const noexcept { return panel_count() * panel_bytes(); }
  std::size_t padded_rows() const noexcept { return panel_count() * panel_rows; }
  const std::byte* panel(std::size_t index) const noexcept {
    return panels + index * panel_bytes();
  }
  bool is_float() const noexcept { return layout_of(format).is_float; }
};

// Packs up to 32 rows of `row_bytes` each, in the file's layout, into one panel; missing rows are
// zero. Requires: panel_format_of(type), row_count in 1..32, columns a multiple of 32 and of the
// type's block, `panel` has panel_bytes().
void pack_panel(model::tensor_type type, const std::byte* rows, std::size_t row_count,
                std::size_t row_bytes, std::size_t columns, std::byte* panel);

// out[k] = weights[row][k], bit-equal to model::dequantize_row.
void unpack_row(const packed_matrix& matrix, std::size_t row, float* out);

} // namespace baton::cpu
