// What a stage computes beside its matrix products, as functions over memory of a device: the host
// (kernels_host.cpp) and CUDA (kernels_cuda.cu) have a table each, from the same bodies
// (kernel_bodies.hpp). Rows are dense; a pointer that may be null says so. Sums are float32.
#pragma once

#include "runtime/plugin/abi.hpp"

namespace baton::gpu {

using plugin::element;

constexpr std::uint64_t bytes_of(element e) {
  return e == element::f32 ? 4 : 2;
}

// Whether rows of so many are whole runs of 16 bytes, of which the products' kernels read weights.
constexpr bool are_whole_runs(element e, std::uint64_t columns) {
  return columns * bytes_of(e) % 16 == 0;
}

inline constexpr std::uint32_t head_size_max = 256;
inline constexpr std::uint32_t split_positions_min = 16;
inline constexpr std::uint32_t experts_max = 512;
inline constexpr std::uint32_t experts_used_max = 64;

// A weight's elements, or quantised: packed_format.hpp.
struct matrix {
  const void* values = nullptr; // null: the model has it not
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

// stream[r] += added[r], normalised first where there is a gain for that; then
// out[i] = norm(stream[picked[i]]) * gain.
struct norm_args {
  element kind; // of out
  std::uint32_t rows, hidden;
  const std::uint32_t* picked; // [rows] of the stream; null: all of them, in order
  float* stream;               // [.., hidden]
  const float* added;          // [rows, hidden]; null: nothing. Requires: picked is null
  const float* added_gain;     // [hidden]; null: added as it is
  const float* gain;           // [hidden]; null: no out
  float epsilon;
  void* out; // [rows, hidden] of that kind
};

// Where keys and values lie: [block][kv head][position of the block][dimension], keys and values
// apart.
struct paged_kv {
  element kind;
  void* keys;
  void* values;
  std::uint32_t block_positions, kv_heads, head_size;
};

// Bias, norm and rotation of each head; queries stay, scaled, keys and values go to their pages.
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
  const std::uint32_t* positions; // [rows]
  const std::uint32_t* places;    // [rows]: block * block_positions + position in it
  paged_kv kv;
};

// softmax(query . key) . value of the positions up to a row's own, where the query has its scale.
struct attend_args {
  element kind;
  std::uint32_t rows, heads;
  std::uint32_t row_elements;     // of `projected`, from one row's first query to the next one's
  const void* projected;          // queries first
  void* out;                      // [rows, heads * head_size] of that kind
  const std::uint32_t* positions; // [rows]
  const std::uint32_t* tables;    // [rows]: where the row's sequence begins in `blocks`
  const std::uint32_t* blocks;    // KV blocks of the sequences, one behind the other
  std::uint32_t window;           // 0: none
  float soft_cap;                 // 0: none
  paged_kv kv;
  // A row's positions are cut into so many parts, of split_positions_min at least, that are
  // attended to side by side and merged: a row's sums depend on it.
  std::uint32_t splits;
  float*
      parts; // [rows, heads, splits, head_size + 2]: maximum, total, sums; null where splits is 1
};

// out = act(gate) * up
struct gate_args {
  element kind;
  std::uint32_t rows, width;
  const void* gate_up; // [rows, 2 * width] of that kind
  void* out;           // [rows, width] of that kind
  plugin::activation act;
};

// x = cap * tanh(x / cap)
struct cap_args {
  std::uint64_t count;
  float* values;
  float cap;
};

// Of each row the experts with the highest scores, a tie the lower one, and what they weigh.
struct choose_args {
  std::uint32_t rows, experts, used; // up to experts_max, experts_used_max
  const float* scores;               // [rows, experts]
  bool normalises;                   // softmax over those chosen, else over all
  std::uint32_t* chosen;             // [rows, used], the best first
  float* weights;                    // the same
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
};

// out[row] = zeros, but for from[row] from column `first` on: a rank's part of rows that are summed
// up over the ranks.
struct spread_args {
  std::uint32_t rows, own, first, width;
  const float* from; // [rows, own]
  float* out;        // [rows, width]
};

// tokens[rows[i]] = drawn[draws[i]]; 0 where that is no token.
struct feed_args {
  std::uint32_t count;
  const std::uint32_t* rows;  // [count]
  const std::uint32_t* draws; // [count]
  const std::int32_t* drawn;
  std::int32_t* tokens;
};

// The tokens of some rows, by draw_body.hpp.
struct draw_args {
  std::uint32_t rows, vocabulary;
  const plugin::draw* draws; // [rows]
  const plugin::logit_bias* biases;
  const std::int32_t* banned;
  const plugin::token_count* history;
  float* logits;         // [rows, vocabulary], changed
  float* weights;        // the same; what is in it does not matter, as in all below
  std::uint32_t* tokens; // the same
  double* sums;          // [rows, runs_of(vocabulary)]
  double* buckets;       // [rows, weight_buckets]
  std::int32_t* drawn;   // [rows]
};

// out = in * weights^T for a few rows, with weights as they are or quantised (packed_format.hpp);
// these become numbers in registers. Requires: rows of weights as they are, are multiples of 16
// bytes.
struct few_rows_args {
  element kind; // of in, and of out where it is not float32
  plugin::quantization form;
  std::uint32_t group, rows;
  std::uint64_t columns, outputs;
  const void* in;     // [rows, columns]
  const void* values; // [outputs, columns]
  const void* scales; // [outputs] of fp8, [outputs, columns / group] of int4, else null
  void* out;          // [rows, outputs]
  bool is_out_f32;
};

// Some pairs of one expert; none: there are fewer tiles than the launch has.
struct expert_tile {
  std::uint32_t expert, first, count; // of group_args::pairs
};

// Which rows an expert has, where the host does not know it. A pair is a row and one of its
// experts, by its place in `chosen`.
struct group_args {
  std::uint32_t rows, experts, used;
  std::uint32_t height;        // pairs of a tile
  std::uint32_t tile_count;    // tiles_max() of expert_bodies.hpp
  const std::uint32_t* chosen; // [rows, used]; no expert twice in a row
  std::uint32_t* counts;       // [experts]; what is in it does not matter
  expert_tile* tiles;          // [tile_count]
  std::uint32_t* pairs;        // [rows * used] by expert, those of one in order
  std::uint32_t* order;        // [rows, used]: a row's pairs by expert
};

// out[pair] = in[row of the pair] * weights^T of the pair's expert, for all tiles.
struct expert_args {
  element kind; // of in, and of out where it is not float32
  plugin::quantization form;
  std::uint32_t group;              // of int4
  std::uint32_t height, tile_count; // as they were grouped
  std::uint32_t pairs_of_row;       // of `in`: used where it has the step's rows, 1 where pairs
  std::uint64_t columns, outputs;   // Requires: rows of weights are multiples of 16 bytes
  const expert_tile* tiles;
  const std::uint32_t* pairs;
  const matrix* matrices; // [experts]
  const void* in;         // [.., columns]
  void* out;              // [rows * used, outputs]
  bool is_out_f32;
};

// out[row] = the sum of its pairs, weighed, in the order of experts.
struct combine_args {
  std::uint32_t rows, used, width;
  const std::uint32_t* order; // [rows, used]
  const float* weights;       // [rows, used]
  const float* from;          // [rows * used, width]
  float* out;                 // [rows, width]
};

// out = the weights as numbers of a kind
struct unpack_args {
  element kind;
  plugin::quantization form;
  std::uint32_t group;
  std::uint64_t columns, outputs;
  const void* values;
  const void* scales;
  void* out; // [outputs, columns]
};

// One function a kernel; `stream` is the device's (cudaStream_t), null on the host. A launch that
// the device refuses shows where the stream is waited for.
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
  void (*unpack)(const unpack_args&, void* stream);
  void (*group)(const group_args&, void* stream);
  void (*multiply_experts)(const expert_args&, void* stream);
  void (*combine)(const combine_args&, void* stream);
};

const kernel_table& host_kernels();
const kernel_table& cuda_kernels(); // in a build with CUDA

} // namespace baton::gpu
