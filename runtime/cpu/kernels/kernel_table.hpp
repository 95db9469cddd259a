// Builds the kernel table from the bodies for one vector type. Included by kernels_<isa>.cpp.
#pragma once

#include "runtime/cpu/kernels/attention_body.hpp"
#include "runtime/cpu/kernels/matmul_bf16_body.hpp"
#include "runtime/cpu/kernels/matmul_body.hpp"
#include "runtime/cpu/kernels/recurrence_body.hpp"

namespace baton::cpu {

template <class V, panel_format Format>
constexpr void fill_matmul(kernels& table) {
  using enum activation_width;
  table.matmul[static_cast<std::size_t>(Format)][0] = &matmul<V, Format, bits8>;
  if constexpr (layout_of(Format).is_float)
    table.matmul[static_cast<std::size_t>(Format)][1] = &matmul<V, Format, bits8>;
  else
    table.matmul[static_cast<std::size_t>(Format)][1] = &matmul<V, Format, bits16>;
}

template <class V, kv_format Format>
constexpr void fill_kv(kernels& table) {
  table.attend[static_cast<std::size_t>(Format)] = &attend<V, Format>;
  table.append_kv[static_cast<std::size_t>(Format)] = &append_kv<V, Format>;
}

template <class V>
constexpr kernels make_kernels(isa which) {
  kernels table{};
  table.which = which;
  fill_matmul<V, panel_format::f32>(table);
  fill_matmul<V, panel_format::f16>(table);
  table.matmul[static_cast<std::size_t>(panel_format::bf16)][0] = &matmul_bf16<V>;
  table.matmul[static_cast<std::size_t>(panel_format::bf16)][1] = &matmul_bf16<V>;
  fill_matmul<V, panel_format::nibble_zero_point>(table);
  fill_matmul<V, panel_format::nibble_min>(table);
  fill_matmul<V, panel_format::byte>(table);
  fill_matmul<V, panel_format::byte_min>(table);
  fill_matmul<V, panel_format::nibble_min_f32>(table);
  fill_matmul<V, panel_format::byte_min_f32>(table);
  fill_matmul<V, panel_format::byte_two_scales>(table);
  fill_matmul<V, panel_format::nibble_two_scales>(table);
  fill_matmul<V, panel_format::nibble_two_mins>(table);
  fill_matmul<V, panel_format::table>(table);
  fill_matmul<V, panel_format::table_f32>(table);
  fill_matmul<V, panel_format::table_two_scales>(table);
  fill_kv<V, kv_format::f16>(table);
  fill_kv<V, kv_format::f32>(table);
  fill_kv<V, kv_format::q8_0>(table);
  table.quantise[0] = &quantise<V, activation_width::bits8>;
  table.quantise[1] = &quantise<V, activation_width::bits16>;
  table.rms_norm = &rms_norm<V>;
  table.layer_norm = &layer_norm<V>;
  table.silu_multiply = &silu_multiply<V>;
  table.gelu_multiply = &gelu_multiply<V>;
  table.clamped_silu_multiply = &clamped_silu_multiply<V>;
  table.soft_cap = &soft_cap<V>;
  table.add = &add<V>;
  table.add_scaled = &add_scaled<V>;
  table.exp_sum = &exp_sum<V>;
  table.rope_pairs = &rope_pairs<V>;
  table.rope_halves = &rope_halves<V>;
  table.scale = &scale<V>;
  table.sigmoid_multiply = &sigmoid_multiply<V>;
  table.multiply = &multiply<V>;
  table.convolve = &convolve<V>;
  table.scan = &scan<V>;
  return table;
}

} // namespace baton::cpu
