// A stage's weights, or a rank's slice of them, read from a model file and packed for the kernels,
// in the order in which a step reads them. Built once at load; constant afterwards.
#pragma once

#include "runtime/cpu/forward/thread_team.hpp"
#include "runtime/cpu/memory/large_memory.hpp"
#include "runtime/cpu/panels/panel.hpp"
#include "runtime/model/slice.hpp"

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace baton::cpu {

// down(act(gate x) * up x)
struct ffn_weights {
  packed_matrix gate, up; // [ffn, hidden]
  packed_matrix down;     // [hidden, ffn]
  // Per output; null if the family has none.
  const float *gate_bias = nullptr, *up_bias = nullptr, *down_bias = nullptr;
};

// The tensors of a recurrent layer; its output is layer_weights::attention_out.
struct recurrent_weights {
  packed_matrix mixed;           // [channels, hidden]
  packed_matrix gate;            // [output, hidden]: of the output
  packed_matrix input_gate;      // [channels, hidden], of a short convolution
  packed_matrix strength, decay; // [value heads, hidden]
  // Null if the family has none.
  const float *convolution = nullptr, *convolution_bias = nullptr; // [rows, channels], [channels]
  // [value heads]: ln(decay) = scale * softplus(decay x + bias)
  const float *decay_scale = nullptr, *decay_bias = nullptr;
  const float* skip = nullptr; // [value heads]: the part of the value in the output
  const float* norm = nullptr; // [value_size or output]
};

// The tensors of latent attention beside layer_weights::query, [query rank or heads * query size,
// hidden], layer_weights::key, [kv rank + rotated size, hidden], and the output.
struct latent_weights {
  const float* query_norm = nullptr; // [query rank]; null: queries come from the row
  packed_matrix query;               // [heads * query size, query rank], or empty
  const float* kv_norm = nullptr;    // [kv rank]
  // For each head: [kv rank, plain size], from its query to latents; [value size, kv rank].
  std::vector<packed_matrix> onto_latents, values;
};

struct layer_weights {
  const float* attention_norm = nullptr; // [hidden]
  packed_matrix query, key, value;       // [q_size or kv_size, hidden]
  packed_matrix attention_gate;          // [q_size, hidden], or empty
  latent_weights latent;                 // beside them, if attention is latent
  recurrent_weights recurrent;           // in place of these
  packed_matrix attention_out;           // [hidden, q_size or values]
  const float* ffn_norm = nullptr;       // [hidden]
  ffn_weights ffn;                       // of a dense layer; otherwise:
  packed_matrix router;                  // [experts, hidden]
  std::vector<ffn_weights> experts;
  ffn_weights shared;        // beside the experts, or empty
  packed_matrix shared_gate; // [1, hidden], or empty
  // With an ffn beside experts, otherwise null. Norms of the inputs of the router and of the
  // experts, [hidden]; of the outputs of the ffn and of the experts; factors of the experts'
  // weights, [experts].
  const float *router_gain = nullptr, *experts_norm = nullptr;
  const float *post_dense_norm = nullptr, *post_experts_norm = nullptr;
  const float* expert_scales = nullptr;
  // For the layer's embeddings, or empty: [inputs, hidden], [hidden, inputs], [hidden].
  packed_matrix input_gate, input_projection;
  const float* input_norm = nullptr;
  const float* scale = nullptr; // [1]: of the residual behind the layer
  // Null if the family has none: per output, per dimension of a head, per head, [experts],
  // [hidden].
  const float *query_bias = nullptr, *key_bias = nullptr, *value_bias = nullptr;
  const float *attention_out_bias = nullptr, *sinks = nullptr;
  const float *router_bias = nullptr, *choice_bias = nullptr;
  const float *query_norm = nullptr, *key_norm = nullptr;
  const float *post_attention_norm = nullptr, *post_ffn_norm = nullptr;
};

struct stage_weights {
  large_memory memory;
  // The tensors of all layers together: a factor for each pair.
  std::vector<std::pair<std::string, std::span<const float>>> rope_factors;
  std::vector<layer_weights> layers;
  packed_matrix embedding; // [vocabulary, hidden], if the stage embeds
  // The embeddings of each layer, or empty: [vocabulary, layers * inputs], [layers * inputs,
  // hidden], [inputs].
  packed_matrix layer_embedding, layer_projection;
  const float* layer_projection_norm = nullptr;
  const float* output_norm = nullptr; // [hidden], on the last stage
  packed_matrix head;                 // [vocabulary, hidden]; the embedding's rows if tied and here

  // Empty if there is no such tensor.
  std::span<const float> rope_factors_of(std::string_view tensor) const noexcept;
};

// The packed size of this slice of these layers in bytes. Errors: as load_weights, without reading.
result<std::uint64_t> packed_bytes(const model::model_file& file, const model::description& model,
                                   const model::layer_range& range,
                                   const model::tensor_slice& slice);

// Reads through the file descriptor and keeps no view of the file. The team shares the packing.
// Sizes above are those of the slice. Errors: bad_model_file (a tensor is missing),
// unsupported_model (a type or width without a kernel, or a slice within a block), io_failed,
// does_not_fit.
result<stage_weights> load_weights(const model::model_file& file, const model::description& model,
                                   const model::layer_range& range,
                                   const model::tensor_slice& slice, thread_team& team);

} // namespace baton::cpu
