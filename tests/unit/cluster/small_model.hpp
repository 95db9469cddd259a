// A model for plans: of which only the shape matters.
#pragma once

#include "runtime/model/description.hpp"

namespace baton::cluster {

inline model::description small_model() {
  model::description d;
  d.name = "small";
  d.architecture = "llama";
  d.layer_count = 30;
  d.hidden_size = 576;
  d.ffn_size = 1536;
  d.head_count = 9;
  d.kv_head_count = 3;
  d.head_size = 64;
  d.vocab_size = 49152;
  d.context_length = 8192;
  d.layer_bytes.assign(30, 2'200'000);
  d.embedding_bytes = d.head_bytes = 30'000'000;
  d.has_tied_embeddings = true;
  return d;
}

} // namespace baton::cluster
