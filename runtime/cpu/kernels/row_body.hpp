// Operations on single rows between the matrix products, written once over a vector type V:
// normalisation, quantisation, activation functions, soft caps, rotary embedding.
#pragma once

#include "runtime/cpu/kernels/kernels.hpp"

namespace baton::cpu {

// x = n ln 2 + r with n = round(x / ln 2), ln 2 in two parts. `slope` = (exp(r) - 1) / r, a
// polynomial of degree 5.
template <class V>
struct exp_parts {
  typename V::f32 n, r, slope;
};

template <class V>
[[gnu::always_inline]] inline exp_parts<V> exp_parts_of(typename V::f32 x) {
  using f32 = typename V::f32;
  const f32 n = V::round(V::mul(x, V::set(1.44269504F)));
  f32 r = V::fma(n, V::set(-0.693145752F), x);
  r = V::fma(n, V::set(-1.42860677e-6F), r);
  f32 p = V::set(1.0F / 720.0F);
  p = V::fma(p, r, V::set(1.0F / 120.0F));
  p = V::fma(p, r, V::set(1.0F / 24.0F));
  p = V::fma(p, r, V::set(1.0F / 6.0F));
  p = V::fma(p, r, V::set(0.5F));
  p = V::fma(p, r, V::set(1.0F));
  return {n, r, p};
}

// exp(x) with a relative error of about 2e-7; -inf gives 0. One fixed sequence of operations.
template <class V>
[[gnu::always_inline]] inline typename V::f32 exp_of(typename V::f32 x) {
  // Below, the result is less than the smallest denormal; above, it is infinite.
  x = V::min(V::max(x, V::set(-104.0F)), V::set(128.0F));
  const auto parts = exp_parts_of<V>(x);
  return V::scale_by_power(V::fma(parts.slope, parts.r, V::set(1.0F)), parts.n);
}

// tanh(x) = m / (m + 2) with m = exp(2x) - 1. The 1 is subtracted from the power of two only, so
// the result stays precise near zero.
template <class V>
[[gnu::always_inline]] inline typename V::f32 tanh_of(typename V::f32 x) {
  using f32 = typename V::f32;
  // Beyond, the result is 1 in float32.
  const f32 twice = V::min(V::max(V::add(x, x), V::set(-40.0F)), V::set(40.0F));
  const auto parts = exp_parts_of<V>(twice);
  const f32 power = V::scale_by_power(V::set(1.0F), parts.n);
  const f32 m = V::fma(V::mul(parts.slope, parts.r), power, V::sub(power, V::set(1.0F)));
  return V::div(m, V::add(m, V::set(2.0F)));
}

// cap * tanh(x / cap). An overflow becomes NaN (inf * 0) instead of a harmless cap, so the sampler
// detects it.
template <class V>
[[gnu::always_inline]] inline typename V::f32 soft_capped(typename V::f32 x, float cap) {
  const auto capped = V::mul(tanh_of<V>(V::div(x, V::set(cap))), V::set(cap));
  return V::fma(x, V::zero(), capped);
}

// Four partial sums over 16 lanes on every machine: the order is part of the contract.
template <class V>
void rms_norm(const float* x, const float* gain, std::size_t n, float epsilon, float* out) {
  typename V::f32 sum[4] = {V::zero(), V::zero(), V::zero(), V::zero()};
  for (std::size_t i = 0; i < n; i += 16) {
    const auto v = V::load(x + i);
    sum[i / 16 % 4] = V::fma(v, v, sum[i / 16 % 4]);
  }
  const float squares = V::reduce_add(V::add(V::add(sum[0], sum[1]), V::add(sum[2], sum[3])));
  // Overflow turns the whole row into NaN (inf * 0), so the sampler detects it.
  const float mean = squares / static_cast<float>(n);
  const float inverse = 1.0F / __builtin_sqrtf(mean + epsilon) + mean * 0.0F;
  for (std::size_t i = 0; i < n; i += 16)
    V::store(out + i, V::mul(V::mul(V::load(x + i), V::set(inverse)), V::load(gain + i)));
}

// As rms_norm, with four partial sums for the mean and then for the squares.
template <class V>
void layer_norm(const float* x, const float* gain, std::size_t n, float epsilon, float* out) {
  const auto total = [](typename V::f32(&sum)[4]) {
    return V::reduce_add(V::add(V::add(sum[0], sum[1]), V::add(sum[2], sum[3])));
  };
  typename V::f32 sum[4] = {V::zero(), V::zero(), V::zero(), V::zero()};
  for (std::size_t i = 0; i < n; i += 16)
    sum[i / 16 % 4] = V::add(sum[i / 16 % 4], V::load(x + i));
  const auto mean = V::set(total(sum) / static_cast<float>(n));
  typename V::f32 square[4] = {V::zero(), V::zero(), V::zero(), V::zero()};
  for (std::size_t i = 0; i < n; i += 16) {
    const auto v = V::sub(V::load(x + i), mean);
    square[i / 16 % 4] = V::fma(v, v, square[i / 16 % 4]);
  }
  const float variance = total(square) / static_cast<float>(n);
  const float inverse = 1.0F / __builtin_sqrtf(variance + epsilon) + variance * 0.0F;
  for (std::size_t i = 0; i < n; i += 16)
    V::store(out + i,
             V::mul(V::mul(V::sub(V::load(x + i), mean), V::set(inverse)), V::load(gain + i)));
}

template <class V>
void silu_multiply(const float* gate, const float* up, std::size_t n, float* out) {
  for (std::size_t i = 0; i < n; i += 16) {
    const auto g = V::load(gate + i);
    const auto e = exp_of<V>(V::sub(V::zero(), g));
    V::store(out + i, V::mul(V::div(g, V::add(V::set(1.0F), e)), V::load(up + i)));
  }
}

// Adds a zero product, so that an infinite gate or up becomes NaN instead of a harmless limit.
template <class V>
void clamped_silu_multiply(const float* gate, const float* up, std::size_t n, float* out) {
  const auto limit = V::set(7.0F), lowest = V::set(-7.0F);
  for (std::size_t i = 0; i < n; i += 16) {
    const auto x = V::load(gate + i), y = V::load(up + i);
    const auto g = V::min(x, limit);
    const auto u = V::min(V::max(y, lowest), limit);
    const auto e = exp_of<V>(V::mul(g, V::set(-1.702F)));
    const auto gated = V::mul(V::div(g, V::add(V::set(1.0F), e)), V::add(u, V::set(1.0F)));
    V::store(out + i, V::fma(x, V::zero(), V::fma(y, V::zero(), gated)));
  }
}

// The tanh form of gelu (arXiv 1606.08415): g / (1 + exp(-2u)), u = sqrt(2 / pi) (g + 0.044715
// g^3).
template <class V>
void gelu_multiply(const float* gate, const float* up, std::size_t n, float* out) {
  for (std::size_t i = 0; i < n; i += 16) {
    const auto g = V::load(gate + i);
    const auto slope = V::fma(V::mul(g, g), V::set(-0.0713548163F), V::set(-1.59576912F));
    const auto e = exp_of<V>(V::mul(g, slope));
    V::store(out + i, V::mul(V::div(g, V::add(V::set(1.0F), e)), V::load(up + i)));
  }
}

template <class V>
void soft_cap(float* x, std::size_t n, float cap) {
  for (std::size_t i = 0; i < n; i += 16)
    V::store(x + i, soft_capped<V>(V::load(x + i), cap));
}

template <class V>
void add(float* x, const float* y, std::size_t n) {
  for (std::size_t i = 0; i < n; i += 16)
    V::store(x + i, V::add(V::load(x + i), V::load(y + i)));
}

template <class V>
void add_scaled(float* x, const float* y, std::size_t n, float factor) {
  for (std::size_t i = 0; i < n; i += 16)
    V::store(x + i, V::fma(V::load(y + i), V::set(factor), V::load(x + i)));
}

template <class V>
float exp_sum(float* x, std::size_t n, float shift) {
  auto sum = V::zero();
  for (std::size_t i = 0; i < n; i += 16) {
    const auto e = exp_of<V>(V::sub(V::load(x + i), V::set(shift)));
    V::store(x + i, e);
    sum = V::add(sum, e);
  }
  return V::reduce_add(sum);
}

template <class V>
[[gnu::always_inline]] inline activation_terms terms_of(float scale, std::int32_t lo,
                                                        std::int32_t hi) {
  activation_terms t;
  t.scale = scale;
  t.scaled_sum = scale * static_cast<float>(lo + hi);
  t.minus_8_sum = -8 * (lo + hi);
  t.minus_128_sum = -128 * (lo + hi);
  t.minus_128_sum_lo = -128 * lo;
  t.minus_128_sum_hi = -128 * hi;
  t.scaled_sum_lo = scale * static_cast<float>(lo);
  t.scaled_sum_hi = scale * static_cast<float>(hi);
  return t;
}

template <class V, activation_width Width>
void quantise(const float* values, std::size_t blocks, std::byte* records) {
  using i32 = typename V::i32;
  using block_type = activation_block<Width>;
  constexpr auto most = static_cast<float>(block_type::most);
  auto* block = reinterpret_cast<block_type*>(records);
  for (std::size_t b = 0; b < blocks; ++b, values += block_columns, ++block) {
    const auto x0 = V::load(values);
    const auto x1 = V::load(values + 16);
    const float largest = V::reduce_max(V::max(V::abs(x0), V::abs(x1)));
    const auto inverse = V::set(largest > 0 ? most / largest : 0.0F);
    // In range, except for rows that have overflowed, whose scale is inf or NaN.
    const auto lowest = V::set(-most), highest = V::set(most);
    const i32 i0 = V::to_i32(V::min(V::max(V::mul(x0, inverse), lowest), highest));
    const i32 i1 = V::to_i32(V::min(V::max(V::mul(x1, inverse), lowest), highest));
    V::store_values(block->values, i0);
    V::store_values(block->values + 16, i1);
    block->terms = terms_of<V>(largest / most, V::reduce_add(i0), V::reduce_add(i1));
  }
}

template <class V>
void rope_pairs(float* x, std::size_t n, const float* cosine, const float* sine) {
  std::size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const auto v = V::load(x + i);
    V::store(x + i, V::fma(V::swap_pairs(v), V::load(sine + i), V::mul(v, V::load(cosine + i))));
  }
  for (; i + 2 <= n; i += 2) {
    const float a = x[i], b = x[i + 1];
    x[i] = __builtin_fmaf(b, sine[i], a * cosine[i]);
    x[i + 1] = __builtin_fmaf(a, sine[i + 1], b * cosine[i + 1]);
  }
}

template <class V>
void rope_halves(float* x, std::size_t n, const float* cosine, const float* sine) {
  const std::size_t half = n / 2;
  std::size_t i = 0;
  for (; i + 16 <= half; i += 16) {
    const auto a = V::load(x + i);
    const auto b = V::load(x + half + i);
    V::store(x + i, V::fma(b, V::load(sine + i), V::mul(a, V::load(cosine + i))));
    V::store(x + half + i,
             V::fma(a, V::load(sine + half + i), V::mul(b, V::load(cosine + half + i))));
  }
  for (; i < half; ++i) {
    const float a = x[i], b = x[half + i];
    x[i] = __builtin_fmaf(b, sine[i], a * cosine[i]);
    x[half + i] = __builtin_fmaf(a, sine[half + i], b * cosine[half + i]);
  }
}

template <class V>
void scale(float* x, std::size_t n, float factor) {
  for (std::size_t i = 0; i < n; i += 16)
    V::store(x + i, V::mul(V::load(x + i), V::set(factor)));
}

} // namespace baton::cpu
