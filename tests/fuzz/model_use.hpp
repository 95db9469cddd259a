// Reads a model file as the product does before serving it: all its metadata, the start of each
// tensor, and its description.
#pragma once

#include "runtime/model/description.hpp"

#include <algorithm>
#include <vector>

namespace baton::fuzz {

inline void read_metadata(const model::model_file& file) {
  for (const auto& key : file.keys()) {
    (void)file.array_size(key);
    (void)file.get_u32(key);
    (void)file.get_u64(key);
    (void)file.get_f32(key);
    (void)file.get_bool(key);
    (void)file.get_string(key);
    (void)file.original_name(key);
  }
}

inline void read_tensors(const model::model_file& file) {
  constexpr std::uint64_t row_elements_max = 1 << 16; // a longer row takes the same path
  for (const auto& tensor : file.tensors()) {
    ENSURE(file.find(tensor.name), "tensor '{}' is not found by its name", tensor.name);
    (void)file.original_name(tensor.name);
    if (tensor.columns() > row_elements_max)
      continue;
    std::vector<std::byte> row(tensor.row_bytes());
    if (!file.copy_rows(tensor.name, tensor.rows() - 1, 1, row))
      continue;
    std::vector<float> values(tensor.columns());
    if (model::tensor_type_traits(tensor.type).is_supported)
      model::dequantize_row(tensor.type, row.data(), values.data(), values.size());
  }
}

inline void use(const model::model_file& file) {
  read_metadata(file);
  read_tensors(file);
  if (const auto model = model::describe(file))
    ENSURE(model->layer_count > 0 && model->step_bytes() > 0, "a model without layers");
}

} // namespace baton::fuzz
