// The common form of quantised weights between a file's block layout and a panel record: 32 codes
// of one output row with their scales. Used only while loading.
#pragma once

#include "runtime/cpu/panels/panel_format.hpp"
#include "runtime/model/tensors/tensor.hpp"

#include <array>
#include <optional>

namespace baton::cpu {

// value k = code * scale[k / 16] (+ min[k / 16]).
struct weight_block {
  // Nibble formats: 0..15 as stored, without subtracting the zero point or replacing the index of a
  // table. Byte formats: the value.
  std::array<std::int8_t, block_columns> codes;
  std::array<float, 2> scale;
  std::array<float, 2> min;
};

// The panel format that holds a tensor type without loss; empty for types without kernels.
std::optional<panel_format> panel_format_of(model::tensor_type type) noexcept;

// Bytes in memory for each byte of the file. Requires: a type with a panel format.
double packed_growth(model::tensor_type type);

// The numbers that its nibbles stand for; null unless its format is one with a table.
const code_table* code_table_of(model::tensor_type type) noexcept;

// Block `index` (32 columns) of a row in the file's layout. Requires: a quantised type with a
// panel format.
weight_block read_weight_block(model::tensor_type type, const std::byte* row, std::size_t index);

} // namespace baton::cpu
