// The shape of the default model, for partitions and plans without a file.
#pragma once

#include "runtime/model/description.hpp"

namespace baton::testing {

// SmolLM2-135M: its layers, widths and heads. `layer_bytes` per layer, `head_bytes` for the head
// and for the embedding.
inline model::description smollm2_shape(std::uint64_t layer_bytes, std::uint64_t head_bytes) {
  model::description d;
  d.name = "smollm2";
  d.architecture = "llama";
  d.layer_count = 30;
  d.layers.assign(d.layer_count, {.window = 0, .rope = 0, .is_mixture = false});
  d.hidden_size = 576;
  d.ffn_size = 1536;
  d.head_count = 9;
  d.kv_head_count = 3;
  d.head_size = 64;
  d.vocab_size = 49152;
  d.context_length = 8192;
  d.layer_bytes.assign(d.layer_count, layer_bytes);
  d.embedding_bytes = d.head_bytes = head_bytes;
  return d;
}

} // namespace baton::testing
