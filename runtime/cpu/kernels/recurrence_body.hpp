// Recurrent layers, written once over a vector type V: the convolution before the scan, the scan,
// and the gate behind it.
#pragma once

#include "runtime/cpu/kernels/row_body.hpp"

namespace baton::cpu {

template <class V>
[[gnu::always_inline]] inline typename V::f32 sigmoid_of(typename V::f32 x) {
  return V::div(V::set(1.0F), V::add(V::set(1.0F), exp_of<V>(V::sub(V::zero(), x))));
}

template <class V>
void sigmoid_multiply(float* x, const float* gate, std::size_t n) {
  for (std::size_t i = 0; i < n; i += 16)
    V::store(x + i, V::mul(V::load(x + i), sigmoid_of<V>(V::load(gate + i))));
}

template <class V>
void multiply(float* x, const float* y, std::size_t n) {
  for (std::size_t i = 0; i < n; i += 16)
    V::store(x + i, V::mul(V::load(x + i), V::load(y + i)));
}

template <class V>
void convolve(const convolve_args& a) {
  for (std::size_t c = 0; c < a.channels; c += 16) {
    auto sum = a.bias != nullptr ? V::load(a.bias + c) : V::zero();
    for (std::size_t i = 0; i < a.count; ++i)
      if (a.rows[i] != nullptr)
        sum = V::fma(V::load(a.weights + i * a.channels + c), V::load(a.rows[i] + c), sum);
    V::store(a.out + c, a.activates ? V::mul(sum, sigmoid_of<V>(sum)) : sum);
  }
}

// The sum over a column's rows has four partial sums: their order is part of the contract.
template <class V>
struct column_sums {
  static constexpr std::size_t vectors = scan_columns / 16;
  typename V::f32 part[4][vectors];

  [[gnu::always_inline]] void clear() {
    for (auto& row : part)
      for (auto& each : row)
        each = V::zero();
  }
  [[gnu::always_inline]] typename V::f32 total(std::size_t v) const {
    return V::add(V::add(part[0][v], part[1][v]), V::add(part[2][v], part[3][v]));
  }
};

template <class V>
void scan(const scan_args& a) {
  constexpr std::size_t vectors = column_sums<V>::vectors;
  column_sums<V> sums;
  for (std::size_t r = 0; r < a.rows; ++r) {
    const float* key = a.key + r * a.stride;
    const float* query = a.query + r * a.stride;
    const float* value = a.value + r * a.stride;
    const float* before = r == 0 ? a.from : a.to;
    const auto decay = V::set(a.decay[r * a.weight_stride]);
    const auto strength = V::set(a.strength[r * a.weight_stride]);
    sums.clear();
    if (before != nullptr && a.has_delta_rule)
      for (std::size_t i = 0; i < a.key_size; i += 4)
        for (std::size_t p = 0; p < 4; ++p)
          for (std::size_t v = 0; v < vectors; ++v)
            sums.part[p][v] =
                V::fma(V::set(key[i + p]), V::load(before + (i + p) * scan_columns + 16 * v),
                       sums.part[p][v]);
    typename V::f32 change[vectors];
    for (std::size_t v = 0; v < vectors; ++v)
      change[v] = V::mul(strength, V::sub(V::load(value + 16 * v), V::mul(decay, sums.total(v))));
    sums.clear();
    for (std::size_t i = 0; i < a.key_size; i += 4)
      for (std::size_t p = 0; p < 4; ++p)
        for (std::size_t v = 0; v < vectors; ++v) {
          const std::size_t at = (i + p) * scan_columns + 16 * v;
          auto state = V::mul(V::set(key[i + p]), change[v]);
          if (before != nullptr)
            state = V::fma(decay, V::load(before + at), state);
          V::store(a.to + at, state);
          sums.part[p][v] = V::fma(V::set(query[i + p]), state, sums.part[p][v]);
        }
    for (std::size_t v = 0; v < vectors; ++v)
      V::store(a.out + r * a.out_stride + 16 * v, sums.total(v));
  }
}

} // namespace baton::cpu
