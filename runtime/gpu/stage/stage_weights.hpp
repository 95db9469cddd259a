// The weights of a stage in device memory. Matrices that a step multiplies together are contiguous.
#pragma once

#include "runtime/gpu/device/device.hpp"

#include <vector>

namespace baton::gpu {

struct ffn_weights {
  matrix gate_up; // [2 * ffn, hidden]
  matrix down;    // [hidden, ffn]
};

struct layer_weights {
  const float *attention_norm = nullptr, *post_attention_norm = nullptr;
  const float *ffn_norm = nullptr, *post_ffn_norm = nullptr;
  const float *query_norm = nullptr, *key_norm = nullptr; // [head_size], or of all heads
  const float* projection_bias = nullptr;                 // [(heads + 2 * kv_heads) * head_size]
  matrix projection;                                      // [as many, hidden]: query, key, value
  matrix attention_out;                                   // [hidden, heads * head_size]
  matrix router;                                          // [experts, hidden]; none: dense
  std::vector<ffn_weights> ffn;                           // one, or one per expert
  const float *choice_bias = nullptr, *router_bias = nullptr; // [experts]
  const float* gate_up_bias = nullptr;       // [experts, 2 * ffn]: gate, then up, of each
  const float* down_bias = nullptr;          // [experts, hidden]
  const float* attention_out_bias = nullptr; // [hidden]
  const float* sinks = nullptr;              // [heads]
  ffn_weights shared;                        // beside the experts, or empty
  matrix shared_score;                       // [1, hidden]
};

// Null if the model has no such weight, or not on this stage.
struct stage_weights {
  const void* embedding = nullptr; // [vocabulary, hidden]
  matrix head;                     // [logits, hidden]
  const float* output_norm = nullptr;
  struct rotation_tables { // [context, rotated dimensions / 2]
    const float *cosine = nullptr, *sine = nullptr;
  };
  std::vector<rotation_tables> rotations; // of decoder::rotations
  std::vector<layer_weights> layers;
  std::vector<buffer> memory; // owns all of the above
};

// Reads all weights with settings::threads threads, and quantises the layers' matrices if the
// settings require it. Throws what the device throws, and refused (errors of the shard; an extent
// that does not match the model).
stage_weights load_weights(device& on, const plugin::decoder& model, const plugin::settings& with,
                           const plugin::host& shard);

} // namespace baton::gpu
