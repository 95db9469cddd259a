// The tensors of a checkpoint's files by which a quantised matrix is stored, and how to read parts
// of them. Used only by the formats of quantised matrices.
#pragma once

#include "runtime/model/safetensors/safetensors.hpp"

#include <map>
#include <span>
#include <string>
#include <vector>

namespace baton::model {

// A tensor in one of a checkpoint's files, by its published name.
struct stored_tensor {
  std::size_t file = 0;
  tensor_view view;
};

using file_span = std::span<const safetensors_file>;

// The stored tensors of one matrix, by the last part of their names.
struct module_parts {
  std::string module; // "model.layers.0.mlp.up_proj"
  std::map<std::string, stored_tensor, std::less<>> by_role;

  // Null if the files have none.
  const stored_tensor* find(std::string_view role) const {
    const auto found = by_role.find(role);
    return found != by_role.end() ? &found->second : nullptr;
  }
};

// "'X.qweight' lacks its scales"
error lacks(const stored_tensor& codes, std::string_view role);
// "tensor 'X.scales': expected F16 [2, 16] beside 'X.qweight' I32 [8, 16], found F16 [1, 16]".
error mismatched(const stored_tensor& part, const stored_tensor& codes, std::string_view expected);
// Whether a tensor is there with this type and shape. Errors: bad_model_file.
result<void> check_part(const stored_tensor* part, std::string_view role,
                        const stored_tensor& codes, const tensor_view& wanted);

// Whether floats_of reads the type.
bool is_float_type(tensor_type type) noexcept;
// Elements [first, first + count) as float32; those of F8_E8M0 are powers of two. Requires: a type
// that is_float_type. Errors: io_failed.
result<std::vector<float>> floats_of(const stored_tensor& tensor, file_span files,
                                     std::uint64_t first, std::uint64_t count);

// Columns [first, first + count) of every row, [rows, count]. Requires: size(out) is their bytes.
// Errors: io_failed.
result<void> read_columns(const stored_tensor& tensor, file_span files, std::uint64_t first,
                          std::uint64_t count, std::span<std::byte> out);
// The same as float32, transposed: [count, rows].
result<std::vector<float>> float_columns_of(const stored_tensor& tensor, file_span files,
                                            std::uint64_t first, std::uint64_t count);
template <class T>
result<std::vector<T>> columns_of(const stored_tensor& tensor, file_span files, std::uint64_t first,
                                  std::uint64_t count) {
  std::vector<T> values(tensor.view.rows() * count);
  const auto read =
      read_columns(tensor, files, first, count, std::as_writable_bytes(std::span(values)));
  return read ? result(std::move(values)) : read.error();
}

// Consecutive bytes of a tensor as elements. Errors: io_failed.
template <class T>
result<std::vector<T>> elements_of(const stored_tensor& tensor, file_span files,
                                   std::uint64_t first, std::uint64_t count) {
  std::vector<T> values(count);
  if (auto r = files[tensor.file].read(tensor.view, first * sizeof(T),
                                       std::as_writable_bytes(std::span(values)));
      !r) {
    return r.error();
  }
  return values;
}

} // namespace baton::model
