// Stores a row of keys and values into a page, written once over a vector type V and the page's
// format.
#pragma once

#include "runtime/cpu/kernels/kernels.hpp"

namespace baton::cpu {

// Converts 16 elements of a page from and to floats. `most` bounds stored values: an infinity in
// the KV memory would turn masked products 0 * inf of other rows into NaN.
template <class V, kv_format Format>
struct kv_elements;

template <class V>
struct kv_elements<V, kv_format::f16> {
  using type = std::uint16_t;
  static constexpr float most = 65504.0F;
  [[gnu::always_inline]] static auto load(const type* p) { return V::load_f16(p); }
  [[gnu::always_inline]] static void store(type* p, typename V::f32 x) { V::store_f16(p, x); }
};

template <class V>
struct kv_elements<V, kv_format::f32> {
  using type = float;
  static constexpr float most = 0x1.fffffep127F;
  [[gnu::always_inline]] static auto load(const type* p) { return V::load(p); }
  [[gnu::always_inline]] static void store(type* p, typename V::f32 x) { V::store(p, x); }
};

// Codes without their scale.
template <class V>
struct kv_elements<V, kv_format::q8_0> {
  using type = std::int8_t;
  static constexpr float most = 65504.0F; // f16's range, so that the scale is finite
  [[gnu::always_inline]] static auto load(const type* p) { return V::load_i8(p); }
  [[gnu::always_inline]] static void store(type* p, typename V::f32 x) {
    V::store_values(p, V::to_i32(x));
  }
};

template <class V, kv_format Format>
[[gnu::always_inline]] inline typename V::f32 saturated(const float* x) {
  constexpr float most = kv_elements<V, Format>::most;
  return V::min(V::max(V::load(x), V::set(-most)), V::set(most));
}

// Stores the scale of `first` and `second` and returns its inverse. The codes are computed from the
// scale as rounded to f16, so its rounding causes no error.
template <class V>
[[gnu::always_inline]] inline float store_kv_scale(typename V::f32 first, typename V::f32 second,
                                                   std::uint16_t* out) {
  constexpr float code_max = 127.0F;
  std::uint16_t rounded[16];
  const float largest = V::reduce_max(V::max(V::abs(first), V::abs(second)));
  V::store_f16(rounded, V::set(largest / code_max));
  *out = rounded[0];
  const float scale = V::first(V::load_f16(rounded));
  return scale > 0 ? 1.0F / scale : 0.0F;
}

// Stores row `position` of a page's matrix: elements start at index `first`, `stride` apart.
template <class V, kv_format Format>
[[gnu::always_inline]] inline void store_kv_row(const float* x, std::size_t head_size,
                                                std::byte* matrix, std::size_t position,
                                                std::size_t first, std::size_t stride) {
  using elements = kv_elements<V, Format>;
  constexpr kv_layout layout = layout_of(Format);
  auto* out = reinterpret_cast<typename elements::type*>(matrix) + first;
  auto* scales =
      reinterpret_cast<std::uint16_t*>(matrix + layout.element_matrix_bytes(head_size)) + position;
  auto inverse = V::zero();
  for (std::size_t i = 0; i < head_size; i += 16) {
    auto v = saturated<V, Format>(x + i);
    if constexpr (layout.has_scales) {
      if (i % kv_scale_dimensions == 0)
        inverse = V::set(
            store_kv_scale<V>(v, i + 16 < head_size ? saturated<V, Format>(x + i + 16) : V::zero(),
                              scales + i / kv_scale_dimensions * kv_block_positions));
      v = V::mul(v, inverse);
    }
    typename elements::type row[16];
    elements::store(stride == 1 ? out + i : row, v);
    for (std::size_t j = 0; stride != 1 && j < 16; ++j)
      out[(i + j) * stride] = row[j];
  }
}

template <class V, kv_format Format>
void append_kv(const float* key, const float* value, std::size_t head_size, std::byte* page,
               std::size_t position) {
  store_kv_row<V, Format>(key, head_size, page, position, position, kv_block_positions);
  store_kv_row<V, Format>(value, head_size, page + layout_of(Format).matrix_bytes(head_size),
                          position, position * head_size, 1);
}

} // namespace baton::cpu
