// Products of a few rows with unquantised or quantised weights, and expansion of quantised weights,
// by a team of lanes. A lane reads 16 bytes of weights at a time, so a warp reads 512 contiguous
// bytes.
//
// A row's sums do not depend on other rows. Called by kernels_host.cpp and
// kernels_cuda_products.cu.
#pragma once

#include "runtime/gpu/bodies/load_run.hpp"
#include "runtime/gpu/device/kernels.hpp"
#include "runtime/gpu/device/packed_format.hpp"

#ifdef __CUDACC__
#include <cuda_fp8.h>
#endif

namespace baton::gpu {

// The weights of one output in runs of 16 bytes: fetched first, converted on arrival. Their sum is
// scaled at the end.
struct fp8_output {
  static constexpr std::uint32_t run = 16;
  using fetched = sixteen_bytes;
  const std::uint8_t* values;
  float scale;

  template <class Args>
  BATON_BODY static fp8_output of(const Args& a, std::uint64_t output) {
    return {static_cast<const std::uint8_t*>(a.values) + output * a.columns,
            static_cast<const float*>(a.scales)[output]};
  }
  BATON_BODY fetched fetch(std::uint64_t which) const {
    return load_sixteen_once(values + which * run);
  }
  BATON_BODY static void make_numbers(const fetched& found, float (&to)[run]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890 // two per instruction
    BATON_UNROLL
    for (std::uint32_t i = 0; i < run; i += 2) {
      const auto pair = static_cast<__nv_fp8x2_storage_t>(found.word[i / 4] >> (i % 4 * 8));
      const __half2 wide(__nv_cvt_fp8x2_to_halfraw2(pair, __NV_E4M3));
      to[i] = __low2float(wide);
      to[i + 1] = __high2float(wide);
    }
#else
    BATON_UNROLL
    for (std::uint32_t i = 0; i < run; ++i)
      to[i] = widen(e4m3{static_cast<std::uint8_t>(found.word[i / 4] >> (i % 4 * 8))});
#endif
  }
  BATON_BODY float scaled(float sum) const {
    return sum * scale;
  }
};

struct int4_output {
  static constexpr std::uint32_t run = 32;
  struct fetched {
    sixteen_bytes numbers;
    int4_group own;
  };
  const std::uint8_t* values;
  const int4_group* groups;
  std::uint32_t group;

  template <class Args>
  BATON_BODY static int4_output of(const Args& a, std::uint64_t output) {
    return {static_cast<const std::uint8_t*>(a.values) + output * (a.columns / 2),
            static_cast<const int4_group*>(a.scales) + output * (a.columns / a.group), a.group};
  }
  BATON_BODY fetched fetch(std::uint64_t which) const {
    return {load_sixteen_once(values + which * (run / 2)), groups[which * run / group]};
  }
  BATON_BODY static void make_numbers(const fetched& found, float (&to)[run]) {
    const float step = widen(found.own.step), minimum = widen(found.own.minimum);
    BATON_UNROLL
    for (std::uint32_t i = 0; i < run; ++i)
      to[i] = static_cast<float>(found.numbers.word[i / 8] >> (i % 8 * 4) & 15U) * step + minimum;
  }
  BATON_BODY float scaled(float sum) const { return sum; }
};

// Unquantised weights.
template <class T>
struct element_output {
  static constexpr std::uint32_t run = 16 / sizeof(T);
  using fetched = sixteen_bytes;
  const T* values;

  template <class Args>
  BATON_BODY static element_output of(const Args& a, std::uint64_t output) {
    return {static_cast<const T*>(a.values) + output * a.columns};
  }
  BATON_BODY fetched fetch(std::uint64_t which) const {
    return load_sixteen_once(values + which * run);
  }
  BATON_BODY static void make_numbers(const fetched& found, float (&to)[run]) {
    widen_run(found, static_cast<const T*>(nullptr), to);
  }
  BATON_BODY float scaled(float sum) const { return sum; }
};

// The address of weights, for Output::of(); kernel arguments have the same member names.
struct weights_location {
  const void* values;
  const void* scales;
  std::uint32_t group;
  std::uint64_t columns;
};

// Sums the products of this lane's runs of one output with `count` rows. Fetches several runs
// ahead, because memory bandwidth needs enough outstanding loads.
template <class T, class Output, std::uint32_t Rows, class Team>
BATON_BODY void sum_products(Team& team, const Output& weights, std::uint64_t columns,
                             const T* const (&rows)[Rows], std::uint32_t count,
                             float (&sum)[Rows]) {
  constexpr std::uint32_t part = 16 / sizeof(T);
  constexpr std::uint32_t together = Rows <= 2 ? 4 : 2;
  const std::uint64_t runs = columns / Output::run;
  BATON_UNROLL
  for (std::uint32_t r = 0; r < Rows; ++r)
    sum[r] = 0;
  for (std::uint64_t first = team.lane; first < runs; first += together * team.lanes) {
    typename Output::fetched found[together] = {};
    BATON_UNROLL
    for (std::uint32_t t = 0; t < together; ++t)
      if (first + t * team.lanes < runs)
        found[t] = weights.fetch(first + t * team.lanes);
    BATON_UNROLL
    for (std::uint32_t t = 0; t < together; ++t) {
      const std::uint64_t run = first + t * team.lanes;
      if (run >= runs)
        continue;
      float w[Output::run];
      Output::make_numbers(found[t], w);
      BATON_UNROLL
      for (std::uint32_t r = 0; r < Rows; ++r) {
        if (r >= count)
          continue;
        BATON_UNROLL
        for (std::uint32_t i = 0; i < Output::run; i += part) {
          float x[part];
          load_run(rows[r] + run * Output::run + i, x);
          BATON_UNROLL
          for (std::uint32_t k = 0; k < part; ++k)
            sum[r] += w[i + k] * x[k];
        }
      }
    }
  }
}

// Executed by one lane; converts to the output type.
template <class T, class Team, class Args>
BATON_BODY void put_sum(const Team& team, const Args& a, std::uint64_t at, float sum) {
  if (team.lane != 0)
    return;
  if (a.is_out_f32)
    static_cast<float*>(a.out)[at] = sum;
  else
    narrow(sum, static_cast<T*>(a.out)[at]);
}

// Rows [first, first + Rows), as far as they exist, of one output. Requires: first < rows.
template <class T, class Output, std::uint32_t Rows, class Team>
BATON_BODY void multiply_few_rows(Team& team, const few_rows_args& a, std::uint32_t first,
                                  std::uint64_t output) {
  const Output weights = Output::of(a, output);
  const std::uint32_t count = a.rows - first < Rows ? a.rows - first : Rows;
  const T* rows[Rows];
  BATON_UNROLL
  for (std::uint32_t r = 0; r < Rows; ++r)
    rows[r] =
        static_cast<const T*>(a.in) + (std::uint64_t{first} + (r < count ? r : 0)) * a.columns;
  float sum[Rows];
  sum_products<T, Output, Rows>(team, weights, a.columns, rows, count, sum);
  BATON_UNROLL
  for (std::uint32_t r = 0; r < Rows && r < count; ++r) {
    const std::uint64_t at = (std::uint64_t{first} + r) * a.outputs + output;
    put_sum<T>(team, a, at, weights.scaled(team.sum(sum[r])));
  }
}

// A lane stores 16 bytes at a time: single elements of 32 lanes would write each sector of memory
// many times.
template <class T, class Output, class Team>
BATON_BODY void unpack_row(Team& team, const unpack_args& a, std::uint64_t output) {
  const Output weights = Output::of(a, output);
  auto* out = static_cast<T*>(a.out) + output * a.columns;
  for (std::uint64_t run = team.lane; run < a.columns / Output::run; run += team.lanes) {
    run_of<T, Output::run> made;
    Output::make_numbers(weights.fetch(run), made.value);
    BATON_UNROLL
    for (std::uint32_t i = 0; i < Output::run; ++i)
      made.value[i] = weights.scaled(made.value[i]);
    made.store(out + run * Output::run);
  }
}

// Calls f(Output{}) for the format. Requires: weights are quantised.
template <class F>
void with_format(plugin::quantization form, const F& f) {
  if (form == plugin::quantization::fp8)
    f(fp8_output{});
  else
    f(int4_output{});
}

// The same for any weights.
template <class T, class F>
void with_weights(plugin::quantization form, const F& f) {
  if (form == plugin::quantization::none)
    f(element_output<T>{});
  else
    with_format(form, f);
}

} // namespace baton::gpu
