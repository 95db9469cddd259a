// Reads a KV page element by element, in the layout of runtime/cpu/kernels/kv_format.hpp.
#pragma once

#include "runtime/cpu/kernels/kv_format.hpp"
#include "runtime/model/tensors/tensor.hpp"

#include <cstring>

namespace baton::testing {

inline constexpr cpu::kv_format kv_formats[] = {cpu::kv_format::f16, cpu::kv_format::f32,
                                                cpu::kv_format::q8_0};

template <class T>
T element_at(const std::byte* from, std::size_t index) {
  T out;
  std::memcpy(&out, from + index * sizeof(T), sizeof out);
  return out;
}

// Element `index` of a matrix of keys or values; position and dimension select its scale.
inline double stored(cpu::kv_format format, const std::byte* matrix, std::size_t head_size,
                     std::size_t index, std::size_t position, std::size_t d) {
  if (format == cpu::kv_format::f32)
    return double{element_at<float>(matrix, index)};
  if (format == cpu::kv_format::f16)
    return double{model::f16_to_f32(element_at<std::uint16_t>(matrix, index))};
  const auto scale = element_at<std::uint16_t>(matrix + 64 * head_size, d / 32 * 64 + position);
  return double{model::f16_to_f32(scale)} * element_at<std::int8_t>(matrix, index);
}

inline double stored_key(cpu::kv_format format, const std::byte* page, std::size_t head_size,
                         std::size_t position, std::size_t d) {
  return stored(format, page, head_size, d * 64 + position, position, d);
}

inline double stored_value(cpu::kv_format format, const std::byte* page, std::size_t head_size,
                           std::size_t position, std::size_t d) {
  const auto* values = page + cpu::layout_of(format).matrix_bytes(head_size);
  return stored(format, values, head_size, position * head_size + d, position, d);
}

} // namespace baton::testing
