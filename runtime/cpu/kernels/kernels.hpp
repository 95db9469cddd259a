// The kernel interface: one table of functions per instruction set, selected at load. Every entry
// computes the same sequence of float32 operations in all tables (explicit fma, fixed reduction
// trees, exact integer dots). Results are bit-equal for every table, number of rows and thread.
// Pointers are 64-byte aligned unless noted; nothing here allocates or fails.
#pragma once

#include "runtime/cpu/kernels/activation.hpp"
#include "runtime/cpu/kernels/isa.hpp"
#include "runtime/cpu/kernels/kv_format.hpp"
#include "runtime/cpu/panels/panel_format.hpp"

#include <cstddef>
#include <cstdint>

namespace baton::cpu {

inline constexpr std::size_t head_size_max = 576;
// Queries that share one pass over keys and values: 6 x 4 vectors fill the AVX-512 registers.
inline constexpr std::size_t attend_queries_max = 6;

// out[m][n] (+)= sum over k of activations[m][k] * weights[n][k], for whole panels.
struct matmul_args {
  const std::byte* panels = nullptr;
  std::size_t panel_count = 0;
  std::size_t blocks = 0;                 // columns / 32
  const std::byte* activations = nullptr; // quantised records, or float32 for float panels
  std::size_t activation_stride = 0;      // bytes between rows
  std::size_t rows = 0;
  float* out = nullptr;              // [rows][out_stride], 32 * panel_count columns are written
  std::size_t out_stride = 0;        // in floats
  bool adds = false;                 // out += instead of out =
  const code_table* table = nullptr; // of table formats
  std::byte* scratch = nullptr;      // matmul_scratch_bytes(blocks)
};

// Rows of activations that a product rounds, or arranges for tiles, at a time, and their buffer.
// Always inlined: files for several ISAs share this header.
inline constexpr std::size_t arranged_rows = 64;
[[gnu::always_inline]] constexpr std::size_t bf16_row_bytes(std::size_t blocks) {
  return (blocks * block_columns + 16) * sizeof(float); // rows start at different cache sets
}
[[gnu::always_inline]] constexpr std::size_t matmul_scratch_bytes(std::size_t blocks) {
  return arranged_rows * bf16_row_bytes(blocks);
}

// Attention of up to attend_queries_max queries that share keys, values and the last chunk.
struct attend_args {
  const float* const* queries = nullptr;    // [count] -> [head_size], already scaled
  const std::uint32_t* positions = nullptr; // [count], ascending; last visible position of each
  std::size_t count = 0;
  const std::byte* const* pages = nullptr; // by chunk; only visible ones are read
  const std::byte* next_page = nullptr;    // first page of the next call, prefetched; null: unknown
  std::size_t head_size = 0;               // a multiple of 16
  float* const* out = nullptr;             // [count] -> [head_size]
  std::uint32_t window = 0;                // visible positions, including the query's own; 0: all
  float soft_cap = 0.0F;                   // score = cap * tanh(score / cap); 0: no cap
  // [count], or null: a further score of each query, whose share of the softmax has no value.
  const float* sinks = nullptr;
};

// Columns of a recurrent state that are computed together. They do not depend on other columns.
inline constexpr std::size_t scan_columns = 32;

// One row of a causal convolution of each channel.
struct convolve_args {
  const float* const* rows = nullptr; // [count] -> [channels], the row itself last; null: zeros
  std::size_t count = 0;
  const float* weights = nullptr; // [count][channels]
  const float* bias = nullptr;    // [channels], or null
  std::size_t channels = 0;       // a multiple of 16
  bool activates = true;          // silu of the result
  float* out = nullptr;           // [channels]
};

// The states of consecutive rows of a sequence, for scan_columns values of one head:
// S = decay S; S += k change'; out = S'q. With the gated delta rule (arXiv 2412.06464) the change
// is strength (v - S'k), otherwise (arXiv 2405.21060) strength v.
struct scan_args {
  const float *query = nullptr, *key = nullptr; // of the first row: [key_size]
  const float* value = nullptr;                 // [scan_columns]
  std::size_t stride = 0;                       // floats between rows of the three
  const float *decay = nullptr, *strength = nullptr;
  std::size_t weight_stride = 0; // floats between rows of these two
  std::size_t rows = 0, key_size = 0;
  bool has_delta_rule = true;
  const float* from = nullptr; // [key_size][scan_columns]; null: zeros
  float* to = nullptr;         // may be `from`
  float* out = nullptr;        // [rows][out_stride]
  std::size_t out_stride = 0;
};

// The first visible position of a query. Always inlined: files for several ISAs share this header.
[[gnu::always_inline]] constexpr std::uint32_t first_visible(std::uint32_t position,
                                                             std::uint32_t window) {
  return window == 0 || position < window ? 0 : position - window + 1;
}

struct kernels {
  isa which;
  // Indexed by panel_format, then by activation_width (ignored by float panels).
  void (*matmul[panel_format_count][2])(const matmul_args&);
  // Indexed by the kv_format of the pages.
  void (*attend[kv_format_count])(const attend_args&);
  // Stores a key and a value [head_size] at a position of a page, rounded to nearest and saturated
  // to the finite range; indexed by kv_format.
  void (*append_kv[kv_format_count])(const float* key, const float* value, std::size_t head_size,
                                     std::byte* page, std::size_t position);
  // Quantises `blocks` blocks of 32 floats; indexed by activation_width.
  void (*quantise[2])(const float* values, std::size_t blocks, std::byte* records);
  // out = x / rms(x) * gain (arXiv 1910.07467); n is a multiple of 16, out may be x.
  void (*rms_norm)(const float* x, const float* gain, std::size_t n, float epsilon, float* out);
  // out = (x - mean) / deviation * gain (arXiv 1607.06450); as rms_norm.
  void (*layer_norm)(const float* x, const float* gain, std::size_t n, float epsilon, float* out);
  // out = silu(gate) * up; n is a multiple of 16.
  void (*silu_multiply)(const float* gate, const float* up, std::size_t n, float* out);
  // out = gelu(gate) * up, in its tanh form; n is a multiple of 16.
  void (*gelu_multiply)(const float* gate, const float* up, std::size_t n, float* out);
  // out = g * sigmoid(1.702 g) * (u + 1), g = min(gate, 7), u = clamp(up, -7, 7): gpt-oss.
  void (*clamped_silu_multiply)(const float* gate, const float* up, std::size_t n, float* out);
  // x = cap * tanh(x / cap); n is a multiple of 16.
  void (*soft_cap)(float* x, std::size_t n, float cap);
  // x += y; n is a multiple of 16.
  void (*add)(float* x, const float* y, std::size_t n);
  // x += y * factor; n is a multiple of 16.
  void (*add_scaled)(float* x, const float* y, std::size_t n, float factor);
  // x = exp(x - shift), which is 0 for -inf; returns their sum. n is a multiple of 16.
  float (*exp_sum)(float* x, std::size_t n, float shift);
  // Rotates pairs (x[2i], x[2i+1]): x = x * cosine + partner * sine, the sign is in `sine`.
  void (*rope_pairs)(float* x, std::size_t n, const float* cosine, const float* sine);
  // Rotates pairs (x[i], x[i + n/2]).
  void (*rope_halves)(float* x, std::size_t n, const float* cosine, const float* sine);
  void (*scale)(float* x, std::size_t n, float factor);
  // x *= sigmoid(gate); n is a multiple of 16.
  void (*sigmoid_multiply)(float* x, const float* gate, std::size_t n);
  // x *= y; n is a multiple of 16.
  void (*multiply)(float* x, const float* y, std::size_t n);
  void (*convolve)(const convolve_args&);
  void (*scan)(const scan_args&);
};

// Requires: is_available(which).
const kernels& kernels_for(isa which) noexcept;

} // namespace baton::cpu
