// Vectors of 16 floats and of 64 weight codes in plain C++: runs on every CPU and is the reference
// for the other ISAs. Slow on CPUs without fma. Included only by kernels_portable.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace baton::cpu {
namespace {

#define BATON_OP [[gnu::always_inline]] static inline

struct vector_portable {
  struct f32 {
    float v[16];
  };
  struct i32 {
    std::int32_t v[16];
  };
  struct codes {
    std::uint8_t v[64];
  };
  struct few { // four activations of 8 bits, or two of 16
    std::byte v[4];
  };

  static constexpr bool multiplies_offset_bytes = false;
  static constexpr int quantised_rows = 1;
  static constexpr int float_rows = 1;
  static constexpr int bf16_rows = 1;
  static constexpr int panel_vectors = 1;
  static constexpr int attention_vectors = 1;

  template <class Op>
  BATON_OP f32 each(Op op) {
    f32 r;
    for (int i = 0; i < 16; ++i)
      r.v[i] = op(i);
    return r;
  }
  template <class Op>
  BATON_OP i32 each_i32(Op op) {
    i32 r;
    for (int i = 0; i < 16; ++i)
      r.v[i] = op(i);
    return r;
  }

  BATON_OP f32 zero() { return set(0); }
  BATON_OP f32 set(float x) {
    return each([&](int) { return x; });
  }
  BATON_OP f32 load(const float* p) {
    return each([&](int i) { return p[i]; });
  }
  BATON_OP void store(float* p, f32 a) { std::memcpy(p, a.v, sizeof a.v); }
  BATON_OP f32 load_f16(const void* p) {
    std::uint16_t half[16];
    std::memcpy(half, p, sizeof half);
    return each([&](int i) { return f16_to_f32(half[i]); });
  }
  // The first or second elements of 16 pairs.
  template <int Second>
  BATON_OP f32 load_bf16(const void* p) {
    std::uint16_t pairs[32];
    std::memcpy(pairs, p, sizeof pairs);
    return each(
        [&](int i) { return from_bits(static_cast<std::uint32_t>(pairs[2 * i + Second]) << 16); });
  }
  // To the nearest bf16, ties to even, denormals to zero, as vcvtneps2bf16 does.
  BATON_OP f32 round_to_bf16(f32 a) {
    return each([&](int i) {
      const std::uint32_t bits = to_bits(flushed(a.v[i]));
      if (a.v[i] != a.v[i])
        return from_bits((bits | 0x400000U) & 0xFFFF0000U);
      return from_bits((bits + 0x7FFFU + ((bits >> 16U) & 1U)) & 0xFFFF0000U);
    });
  }
  // Denormals count as zero in operands and results, as under `flushing` on other ISAs.
  struct flushing {
    flushing() {}
  };
  BATON_OP f32 fma_flushed(f32 a, f32 b, f32 c) {
    return each([&](int i) { return fma_flushed(a.v[i], b.v[i], c.v[i]); });
  }
  BATON_OP f32 add_flushed(f32 a, f32 b) {
    return each([&](int i) { return fma_flushed(a.v[i], 1.0F, b.v[i]); });
  }
  BATON_OP f32 load_i8(const std::int8_t* p) {
    return each([&](int i) { return static_cast<float>(p[i]); });
  }
  BATON_OP void store_f16(std::uint16_t* p, f32 a) {
    for (int i = 0; i < 16; ++i)
      p[i] = f32_to_f16(a.v[i]);
  }
  BATON_OP f32 add(f32 a, f32 b) {
    return each([&](int i) { return a.v[i] + b.v[i]; });
  }
  BATON_OP f32 sub(f32 a, f32 b) {
    return each([&](int i) { return a.v[i] - b.v[i]; });
  }
  BATON_OP f32 mul(f32 a, f32 b) {
    return each([&](int i) { return a.v[i] * b.v[i]; });
  }
  BATON_OP f32 div(f32 a, f32 b) {
    return each([&](int i) { return a.v[i] / b.v[i]; });
  }
  BATON_OP f32 fma(f32 a, f32 b, f32 c) {
    return each([&](int i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); });
  }
  BATON_OP f32 max(f32 a, f32 b) {
    return each([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
  }
  BATON_OP f32 min(f32 a, f32 b) {
    return each([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
  }
  BATON_OP f32 abs(f32 a) {
    return each([&](int i) { return __builtin_fabsf(a.v[i]); });
  }
  // Nearest even, for |a| < 2^22: the sum has no bits left below one.
  BATON_OP f32 round(f32 a) {
    constexpr float magic = 12582912.0F; // 1.5 * 2^23
    return each([&](int i) { return (a.v[i] + magic) - magic; });
  }
  // a * 2^n for whole n in [-160, 200], rounded once: the first factor keeps a normal.
  BATON_OP f32 scale_by_power(f32 a, f32 n) {
    return each([&](int i) {
      const int whole = to_int(n.v[i]);
      const int half = whole >> 1;
      return a.v[i] * power_of_two(half) * power_of_two(whole - half);
    });
  }
  BATON_OP f32 swap_pairs(f32 a) {
    return each([&](int i) { return a.v[i ^ 1]; });
  }
  BATON_OP f32 first_lanes(f32 a, int count, f32 b) {
    return each([&](int i) { return i < count ? a.v[i] : b.v[i]; });
  }
  // ((0+8)+(4+12)) + ..: adds the upper half to the lower, down to one lane.
  BATON_OP float reduce_add(f32 a) {
    for (int half = 8; half > 0; half /= 2)
      for (int i = 0; i < half; ++i)
        a.v[i] += a.v[i + half];
    return a.v[0];
  }
  BATON_OP float reduce_max(f32 a) {
    float r = a.v[0];
    for (int i = 1; i < 16; ++i)
      r = r > a.v[i] ? r : a.v[i];
    return r;
  }
  BATON_OP float first(f32 a) { return a.v[0]; }

  BATON_OP i32 set_i32(std::int32_t x) {
    return each_i32([&](int) { return x; });
  }
  BATON_OP i32 to_i32(f32 a) {
    a = round(a);
    return each_i32([&](int i) { return to_int(a.v[i]); });
  }
  BATON_OP f32 to_f32(i32 a) {
    return each([&](int i) { return static_cast<float>(a.v[i]); });
  }
  BATON_OP i32 add(i32 a, i32 b) {
    return each_i32([&](int i) { return a.v[i] + b.v[i]; });
  }
  BATON_OP std::int32_t reduce_add(i32 a) {
    std::int32_t r = 0;
    for (int i = 0; i < 16; ++i)
      r += a.v[i];
    return r;
  }
  BATON_OP void store_values(std::int8_t* p, i32 a) {
    for (int i = 0; i < 16; ++i)
      p[i] = static_cast<std::int8_t>(a.v[i] < -128 ? -128 : a.v[i] > 127 ? 127 : a.v[i]);
  }
  BATON_OP void store_values(std::int16_t* p, i32 a) {
    for (std::size_t i = 0; i < 16; ++i)
      p[activation_index(activation_width::bits16, i)] =
          static_cast<std::int16_t>(a.v[i] < -32768  ? -32768
                                    : a.v[i] > 32767 ? 32767
                                                     : a.v[i]);
  }

  BATON_OP codes load_codes(const std::byte* p) {
    codes c;
    std::memcpy(c.v, p, sizeof c.v);
    return c;
  }
  BATON_OP codes low_nibbles(codes c) {
    for (auto& code : c.v)
      code = code & 15U;
    return c;
  }
  BATON_OP codes high_nibbles(codes c) {
    for (auto& code : c.v)
      code = static_cast<std::uint8_t>(code >> 4U);
    return c;
  }
  // A table of 16 bytes, for from_table.
  BATON_OP codes load_table(const std::uint8_t* bytes) {
    codes table{};
    std::memcpy(table.v, bytes, 16);
    return table;
  }
  // Each byte, 0 to 15, as an index.
  BATON_OP codes from_table(const codes& table, codes c) {
    for (auto& code : c.v)
      code = table.v[code];
    return c;
  }
  // `Bits` bits from bit `Shift` on of every two bytes.
  template <int Shift, int Bits>
  BATON_OP codes words(codes c) {
    for (std::size_t i = 0; i < sizeof c.v; i += 2) {
      std::uint16_t word;
      std::memcpy(&word, c.v + i, sizeof word);
      word = static_cast<std::uint16_t>(word >> Shift & ((1 << Bits) - 1));
      std::memcpy(c.v + i, &word, sizeof word);
    }
    return c;
  }
  BATON_OP few broadcast(const void* p) {
    few x;
    std::memcpy(x.v, p, sizeof x.v);
    return x;
  }
  BATON_OP i32 dot_nibbles(i32 acc, codes c, few x) {
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 4; ++j)
        acc.v[i] += c.v[4 * i + j] * static_cast<std::int8_t>(x.v[j]);
    return acc;
  }
  BATON_OP i32 dot_bytes(i32 acc, codes c, few x) {
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 4; ++j)
        acc.v[i] += (c.v[4 * i + j] - 128) * static_cast<std::int8_t>(x.v[j]);
    return acc;
  }
  BATON_OP i32 dot_words(i32 acc, codes c, few x) {
    std::int16_t pair[2], code[2];
    std::memcpy(pair, x.v, sizeof pair);
    for (int i = 0; i < 16; ++i) {
      std::memcpy(code, c.v + 4 * i, sizeof code);
      acc.v[i] += code[0] * pair[0] + code[1] * pair[1];
    }
    return acc;
  }
  BATON_OP void prefetch(const std::byte*) {}

private:
  BATON_OP float flushed(float x) {
    return (to_bits(x) & 0x7F800000U) == 0 ? from_bits(to_bits(x) & 0x80000000U) : x;
  }
  BATON_OP float fma_flushed(float a, float b, float c) {
    constexpr double least = 0x1p-126;
    a = flushed(a), b = flushed(b), c = flushed(c);
    const float sum = flushed(__builtin_fmaf(a, b, c));
    if (sum != least && sum != -least)
      return sum;
    // Denormals are rounded more coarsely: the sum with all 24 bits may have stayed below `least`.
    const double exact = __builtin_fma(double{a}, double{b}, double{c});
    return exact > -least + 0x1p-151 && exact < least - 0x1p-151 ? sum * 0.0F : sum;
  }
  BATON_OP float from_bits(std::uint32_t bits) {
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
  }
  BATON_OP std::uint32_t to_bits(float x) {
    std::uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
  }
  // Out-of-range values become INT32_MIN, as in the vector instructions.
  BATON_OP std::int32_t to_int(float x) {
    return x > -2147483648.0F && x < 2147483648.0F ? static_cast<std::int32_t>(x) : INT32_MIN;
  }
  BATON_OP float power_of_two(int n) {
    return from_bits(static_cast<std::uint32_t>(n + 127) << 23U);
  }
  BATON_OP float f16_to_f32(std::uint16_t half) {
    const std::uint32_t sign = (half & 0x8000U) << 16U;
    const std::uint32_t magnitude = half & 0x7FFFU;
    if (magnitude >= 0x7C00U)
      return from_bits(sign | 0x7F800000U | (magnitude & 0x3FFU) << 13U);
    if (magnitude >= 0x400U)
      return from_bits(sign | ((magnitude << 13U) + (112U << 23U)));
    const float denormal = static_cast<float>(magnitude) * 0x1p-24F;
    return sign != 0 ? -denormal : denormal;
  }
  // Rounds to nearest even. Requires a finite value in f16's range: callers of store_f16 saturate.
  BATON_OP std::uint16_t f32_to_f16(float x) {
    const std::uint32_t bits = to_bits(x);
    const auto sign = static_cast<std::uint16_t>((bits >> 16U) & 0x8000U);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
    if (magnitude < (113U << 23U)) { // below 2^-14: adding 1/2 puts the rounding at 2^-24
      const std::uint32_t shifted = to_bits(from_bits(magnitude) + 0.5F);
      return static_cast<std::uint16_t>(sign | (shifted - 0x3F000000U));
    }
    const std::uint32_t rounded = magnitude + 0xFFFU + ((magnitude >> 13U) & 1U);
    return static_cast<std::uint16_t>(sign | ((rounded >> 13U) - (112U << 10U)));
  }
};

} // namespace
} // namespace baton::cpu
