// The properties that follow from an architecture's name, as a table, and the metadata keys that
// files of a family may have. Used only by describe().
#pragma once

#include "runtime/model/description.hpp"

namespace baton::model {

// A new family requires a row in family.cpp, a golden test, and an engine that implements every
// field of its description.
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
  bool takes_long_rope_factors = false; // longrope
  bool truncates_yarn = true;           // the ramp has whole borders, if the file does not say
  bool takes_window = false;
  bool takes_soft_caps = false;
  bool takes_windowed_rope_base = false;
  bool shares_rope_base = false; // the default of layers with a window is the base of the others
  bool takes_experts = false;
  bool normalises_experts = true;          // the default without a key
  std::uint32_t default_window = 0;        // of files without the key; 0: no window
  std::uint32_t full_attention_period = 0; // of a model with a window
  std::uint32_t unrotated_period = 0;
  // The model size, identified by its number of layers, that scales queries by 1 / sqrt(hidden /
  // heads): the format has no key for it. 0: none.
  std::uint32_t wide_scale_layer_count = 0;
};

// Errors: unsupported_model (names the architecture).
result<family> family_of(std::string_view architecture);

// Refuses unsupported keys that would change the arithmetic. Errors: unsupported_model (names the
// key).
result<void> check_keys(const model_file& file, const family& kind);

} // namespace baton::model
