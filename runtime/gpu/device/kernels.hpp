// A stage's computations other than matrix products, as functions over device memory. The host
// (kernels_host.cpp) and CUDA (kernels_cuda.cu) have one table each, from the same bodies
// (kernel_bodies.hpp). Rows are dense; pointers that may be null are marked. Sums are float32.
#pragma once

#include "runtime/plugin/abi.hpp"

namespace baton::gpu {

using plugin::element;

constexpr std::uint64_t bytes_of(element e) {
  return e == element::f32 ? 4 : 2;
}

// Whether such rows consist of whole 16-byte runs, the unit in which product kernels read weights.
constexpr bool are_whole_runs(element e, std::uint64_t columns) {
  return columns * bytes_of(e) % 16 == 0;
}

inline constexpr std::uint32_t head_size_max = 256;
inline constexpr std::uint32_t split_positions_min = 16;
inline constexpr std::uint32_t experts_max = 512;
inline constexpr std::uint32_t experts_used_max = 64;

// A weight as elements, or quantised: packed_format.hpp.
struct matrix {
  const void* values = nullptr; // null: the model has no such weight
  const void* scales = nullptr; // null: elements

  explicit operator bool() const noexcept { return values != nullptr; }
};

struct embed_args {
  element kind;
  std::uint32_t rows, hidden;
  const std::int32_t* tokens; // [rows]
  const void* table;          // [vocabulary, hidden] of that kind
  float scale;
  float* out; // [rows, hidden]
};

// stream[r] += added[r], normalised first if there is a gain for it; then out[i] =
// norm(stream[picked[i]]) * gain, or a copy.
struct norm_args {
  element kind; // of out
  std::uint32_t rows, hidden;
  const std::uint32_t* picked; // [rows] of the stream; null: all, in order
  float* stream;               // [.., hidden]
  const float* added;          // [rows, hidden]; null: nothing. Requires: picked is null
  const float* added_gain;     // [hidden]; null: no norm
  float added_scale = 1;       // of what is added
  const float* gain;           // [hidden]; null: no norm
  float epsilon;
  void* out;                         // [rows, hidden] of that kind
  bool copies = false;               // without a gain: out = stream; false: no out
  bool subtracts_mean = false;       // normalises the deviations; not for `added`
  const float* added_bias = nullptr; // [hidden], is added to `added`; null: none
};

// The KV layout: [block][kv head][position in the block][dimension], keys and values separate.
struct paged_kv {
  element kind;
  void* keys;
  void* values;
  std::uint32_t block_positions, kv_heads, head_size;
};

// Bias, norm and rotation of each head. Queries stay in place, scaled; keys and values are stored.
struct rotate_args {
  element kind;
  std::uint32_t rows, heads;
  void* projected;   // [rows, (heads + 2 * kv_heads) * head_size] of that kind: query, key, value
  const float* bias; // as a row of `projected`; null: none
  const float *query_norm, *key_norm; // [head_size]; null: none
  const float *cosine, *sine;         // [position, dimensions / 2]; null: no rotation
  std::uint32_t dimensions;
  bool rotates_pairs;
  float epsilon, query_scale;
  const std::uint32_t* positions;    // [rows]
  const std::uint32_t* slot_mapping; // [rows]: block * block_positions + position in it
  paged_kv kv;
  bool norms_behind = false; // the norm comes after the rotation
  // Queries grow by 1 + weight * ln(1 + floor((position + offset) / length)).
  float growth_weight = 0, growth_offset = 0;
  std::uint32_t growth_length = 1;
};

// x = norm(x) * gain for the queries and the keys of a row, each as a whole.
struct row_norm_args {
  element kind;
  std::uint32_t rows, row_elements; // the distance between two rows
  std::uint32_t query, key;         // their widths; keys follow queries
  void* projected;                  // [rows, row_elements] of that kind
  const float *query_norm, *key_norm;
  float epsilon;
};

// softmax(query . key) . value over the positions up to a row's own; queries are already scaled.
struct attend_args {
  element kind;
  std::uint32_t rows, heads;
  std::uint32_t row_elements;     // of `projected`: distance between the first queries of two rows
  const void* projected;          // queries first
  void* out;                      // [rows, heads * head_size] of that kind
  const std::uint32_t* positions; // [rows]
  const std::uint32_t* tables;    // [rows]: start of the row's sequence in `blocks`
  const std::uint32_t* blocks;    // concatenated KV blocks of the sequences
  std::uint32_t window;           // 0: none
  float soft_cap;                 // 0: none
  paged_kv kv;
  // A row's positions are divided into this many parts of at least split_positions_min, which are
  // processed concurrently and merged. It changes the bits of a row.
  std::uint32_t splits;
  float*
      parts; // [rows, heads, splits, head_size + 2]: maximum, total, sums; null where splits is 1
  const float* sinks = nullptr; // [heads]: a score without a value; null: none
};

// out = act(gate) * up
struct gate_args {
  element kind;
  std::uint32_t rows, width;
  const void* gate_up; // [rows, 2 * width] of that kind
  void* out;           // [rows, width] of that kind
  plugin::activation act;
  // [experts, 2 * width], added before; null: none. Row i has the bias of experts[i], or of the
  // first without a list.
  const float* bias = nullptr;
  const std::uint32_t* experts = nullptr;
};

// x = cap * tanh(scale * x / cap)
struct cap_args {
  std::uint64_t count;
  float* values;
  float cap; // 0: no cap
  float scale = 1;
};

// The experts with the highest scores for each row, the lower one among equals, and their weights.
struct choose_args {
  std::uint32_t rows, experts, used; // up to experts_max, experts_used_max
  const float* scores;               // [rows, experts]
  bool normalises;                   // softmax over the chosen ones, else over all
  std::uint32_t* chosen;             // [rows, used], the best first
  float* weights;                    // the same
  plugin::router_form form = plugin::router_form::softmax;
  const float* choice_bias = nullptr; // [experts], of sigmoids; null: none
  float scale = 1;                    // of the weights
  const float* router_bias = nullptr; // [experts], of the scores; null: none
};

// out += from, times the sigmoids of the rows' scores if there are some
struct join_args {
  std::uint32_t rows, width;
  const float* scores; // [rows]; null: none
  const float* from;   // [rows, width]
  float* out;          // [rows, width]
};

// out[i] = from[picked[i]]
struct gather_args {
  element kind;
  std::uint32_t rows, width;
  const std::uint32_t* picked; // [rows]
  const void* from;
  void* out;
};

// out[picked[i]] += weights[i] * from[i]; no row is picked twice.
struct scatter_args {
  std::uint32_t rows, width;
  const std::uint32_t* picked;
  const float* weights; // [rows]
  const float* from;    // [rows, width]
  float* out;
  const float* bias = nullptr; // [width], added to each row of `from`; null: none
};

// out[row] = from[row] starting at column `first`, zeros elsewhere: a rank's part of rows that are
// summed over the ranks.
struct spread_args {
  std::uint32_t rows, own, first, width;
  const float* from; // [rows, own]
  float* out;        // [rows, width]
};

// tokens[rows[i]] = drawn[draws[i]], or 0 if that is no token.
struct feed_args {
  std::uint32_t count;
  const std::uint32_t* rows;  // [count]
  const std::uint32_t* draws; // [count]
  const std::int32_t* drawn;
  std::int32_t* tokens;
};

// Draws the tokens of some rows with draw_body.hpp.
struct draw_args {
  std::uint32_t rows, vocabulary;
  const plugin::draw* draws; // [rows]
  const plugin::logit_bias* biases;
  const std::int32_t* banned;
  const plugin::token_count* history;
  float* logits;         // [rows, vocabulary], modified
  float* weights;        // the same; work memory, like all below
  std::uint32_t* tokens; // the same
  double* sums;          // [rows, runs_of(vocabulary)]
  double* buckets;       // [rows, weight_buckets]
  std::int32_t* drawn;   // [rows]
};

// out = in * weights^T for a few rows; quantised weights (packed_format.hpp) are expanded in
// registers. Requires: rows of unquantised weights are multiples of 16 bytes.
struct few_rows_args {
  element kind; // of in, and of out if it is not float32
  plugin::quantization form;
  std::uint32_t group, rows;
  std::uint64_t columns, outputs;
  const void* in;     // [rows, columns]
  const void* values; // [outputs, columns]
  const void* scales; // [outputs] of fp8, [outputs, columns / group] of int4, else null
  void* out;          // [rows, outputs]
  bool is_out_f32;
};

// Some pairs of one expert; empty tiles fill up the launch.
struct expert_tile {
  std::uint32_t expert, first, count; // of group_args::pairs
};

// Groups rows by expert without the host. A pair is a row and one of its experts, identified by its
// index in `chosen`.
struct group_args {
  std::uint32_t rows, experts, used;
  std::uint32_t height;        // pairs of a tile
  std::uint32_t tile_count;    // tiles_max() of expert_bodies.hpp
  const std::uint32_t* chosen; // [rows, used]; no expert twice in a row
  std::uint32_t* counts;       // [experts]; work memory
  expert_tile* tiles;          // [tile_count]
  std::uint32_t* pairs;        // [rows * used] by expert, in order within an expert
  std::uint32_t* order;        // [rows, used]: a row's pairs by expert
};

// out[pair] = in[row of the pair] * weights^T of the pair's expert, for all tiles.
struct expert_args {
  element kind; // of in, and of out if it is not float32
  plugin::quantization form;
  std::uint32_t group;              // for int4
  std::uint32_t height, tile_count; // as in group_args
  std::uint32_t pairs_of_row;       // of `in`: used if it has the step's rows, 1 if pairs
  std::uint64_t columns, outputs;   // Requires: rows of weights are multiples of 16 bytes
  const expert_tile* tiles;
  const std::uint32_t* pairs;
  const matrix* matrices; // [experts]
  const void* in;         // [.., columns]
  void* out;              // [rows * used, outputs]
  bool is_out_f32;
};

// out[row] = the weighted sum of its pairs, in the order of experts.
struct combine_args {
  std::uint32_t rows, used, width;
  const std::uint32_t* order; // [rows, used]
  const float* weights;       // [rows, used]
  const float* from;          // [rows * used, width]
  float* out;                 // [rows, width]
  // [experts, width], added to each pair of the expert in `chosen` [rows * used]; null: none
  const float* bias = nullptr;
  const std::uint32_t* chosen = nullptr;
};

// out = the weights converted to `kind`
struct unpack_args {
  element kind;
  plugin::quantization form;
  std::uint32_t group;
  std::uint64_t columns, outputs;
  const void* values;
  const void* scales;
  void* out; // [outputs, columns]
};

// One function per kernel; `stream` is the device's (cudaStream_t), null on the host. Failed
// launches are reported when the stream is synchronised.
struct kernel_table {
  void (*embed)(const embed_args&, void* stream);
  void (*norm)(const norm_args&, void* stream);
  void (*rotate)(const rotate_args&, void* stream);
  void (*attend)(const attend_args&, void* stream);
  void (*gate)(const gate_args&, void* stream);
  void (*cap)(const cap_args&, void* stream);
  void (*choose)(const choose_args&, void* stream);
  void (*gather)(const gather_args&, void* stream);
  void (*scatter)(const scatter_args&, void* stream);
  void (*spread)(const spread_args&, void* stream);
  void (*feed)(const feed_args&, void* stream);
  void (*draw)(const draw_args&, void* stream);
  void (*multiply_few)(const few_rows_args&, void* stream);
  // The same for more rows. Requires: weights are quantised, `kind` has 16 bits, and columns are a
  // multiple of tile_columns_step(form).
  void (*multiply_tiles)(const few_rows_args&, void* stream);
  void (*unpack)(const unpack_args&, void* stream);
  void (*group)(const group_args&, void* stream);
  void (*multiply_experts)(const expert_args&, void* stream);
  void (*combine)(const combine_args&, void* stream);
  void (*join)(const join_args&, void* stream);
  void (*norm_parts)(const row_norm_args&, void* stream);
};

const kernel_table& host_kernels();
const kernel_table& cuda_kernels(); // in a build with CUDA

} // namespace baton::gpu
