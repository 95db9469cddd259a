// The buffers of one step: activation rows between the parts, one set for rows_max rows, reused by
// every layer and every step.
#pragma once

#include "runtime/cpu/kernels/expert_choice.hpp"
#include "runtime/cpu/kernels/kernels.hpp"
#include "runtime/cpu/memory/large_memory.hpp"
#include "runtime/model/slice.hpp"

#include <vector>

namespace baton::cpu {

// Rows of floats, `stride` floats apart.
struct float_rows {
  float* data = nullptr;
  std::size_t stride = 0;
  float* row(std::size_t index) const noexcept { return data + index * stride; }
  float_rows from_column(std::size_t column) const noexcept { return {data + column, stride}; }
  float_rows from_row(std::size_t index) const noexcept { return {row(index), stride}; }
};

// The input of a matrix product: floats and their quantised form.
struct input_rows {
  float_rows values;
  std::byte* records = nullptr;
  std::size_t record_stride = 0; // bytes
  std::byte* record_row(std::size_t index) const noexcept {
    return records + index * record_stride;
  }
  input_rows from_row(std::size_t index) const noexcept {
    return {values.from_row(index), record_row(index), record_stride};
  }
};

// The piece of a feed-forward network that a thread computes before it continues: as many rows as a
// product arranges at a time.
inline constexpr std::size_t rows_together = arranged_rows, panels_together = 8;

struct step_memory {
  large_memory memory;
  float_rows hidden;                  // [rows, hidden] the residual stream
  input_rows normed;                  // [rows, hidden]
  float_rows query, key, value;       // [rows, q_size], [rows, kv_size], padded to panels
  input_rows attended;                // [rows, q_size or values]
  float_rows attention_gate;          // [rows, q_size], if there is one
  float* value_gain = nullptr;        // [head size], ones, if values are normalised
  float_rows beside;                  // [rows, hidden], of an ffn beside experts
  float_rows layer_inputs;            // [rows, layers * layer_input_size], if there are some
  input_rows layer_gated;             // [rows, layer_input_size]
  input_rows gated;                   // [rows, ffn], if there is a dense layer
  float_rows logits;                  // [rows, logits], padded to panels
  struct mixture {                    // for models with experts; see forward_experts.cpp
    float_rows scores;                // [rows, experts], padded to panels
    expert_choice* choices = nullptr; // [rows * used]
    input_rows gathered;              // [rows * used, hidden]
    input_rows gated;                 // [rows * used, their ffn]
    input_rows shared;                // [rows, shared ffn]
    float_rows shared_score;          // [rows, 1], padded to a panel
  } experts;
  struct latent_rows { // for models with latent attention; see forward_latent.cpp
    input_rows query;  // [rows, query rank]
    input_rows heads;  // [rows, heads * query size]; quantised, the plain parts alone
    input_rows values; // [rows, heads * value size]
  } latent;
  struct recurrent {       // for models with recurrent layers; see forward_recurrent.cpp
    float_rows mixed;      // [rows, channels], as projected
    float_rows convolved;  // [rows, channels]
    float_rows gate;       // [rows, output]
    float_rows input_gate; // [rows, channels]
    float_rows strength;   // [rows, value heads]
    float_rows decay;      // [rows, value heads]
    float *query_gain = nullptr, *key_gain = nullptr; // [key_size]
  } recurrence;
  struct scratch {                       // per thread
    float_rows gate, up;                 // [rows_together, 32 * panels_together]
    std::byte* arranged = nullptr;       // rows arranged for a product: matmul_args::scratch
    std::uint32_t* first_slot = nullptr; // [experts + 2]
    expert_slot* slots = nullptr;        // [rows * used]
    float* ranked = nullptr;             // [experts]
    float* layer_row = nullptr;          // [layers * layer_input_size]
  };
  std::vector<scratch> per_thread;

  // `model` as this rank computes it; `logits`: logits per row on this rank, or 0.
  // Errors: does_not_fit.
  static result<step_memory> take(const model::description& model, std::size_t logits,
                                  std::size_t rows_max, unsigned threads, activation_width width);
};

} // namespace baton::cpu
