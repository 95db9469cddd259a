// What the architecture's name alone decides about a model, as a table, and which metadata keys a
// file of that family may carry. Read by describe() alone.
#pragma once

#include "runtime/model/description.hpp"

namespace baton::model {

// A new family is a row in family.cpp, a golden test, and an engine that implements every field of
// its description.
struct family {
  std::string_view architecture;
  norm_kind norm = norm_kind::rms;
  rope_kind rope = rope_kind::normal;
  activation_kind activation = activation_kind::silu;
  bool has_qk_norm = false;
  bool has_attention_bias = false;
  bool has_fused_projections = false;
  bool has_post_norms = false;
  bool scales_embedding = false; // by the root of the hidden size
  bool takes_rope_factors = false;
  bool takes_window = false;
  bool takes_soft_caps = false;
  bool takes_windowed_rope_base = false;
  bool takes_experts = false;
  bool normalises_experts = true;          // where no key says otherwise
  std::uint32_t default_window = 0;        // of a file without the key; 0: no window
  std::uint32_t full_attention_period = 0; // of a model with a window
  std::uint32_t unrotated_period = 0;
  // The one size, known by its number of layers, that scales queries by 1 / sqrt(hidden / heads):
  // the format has no key for it. 0: there is none.
  std::uint32_t wide_scale_layer_count = 0;
};

// Errors: unsupported_model (names the architecture).
result<family> family_of(std::string_view architecture);

// Refuses keys that would change the arithmetic and that nothing reads. Errors: unsupported_model
// (names the key).
result<void> check_keys(const model_file& file, const family& kind);

} // namespace baton::model
