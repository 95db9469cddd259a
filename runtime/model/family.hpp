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
  qk_norm_kind qk_norm = qk_norm_kind::none;
  bool takes_qk_norm = false; // of heads, if the file has them
  bool has_attention_bias = false;
  bool takes_attention_bias = false; // if the file has them
  bool has_attention_out_bias = false;
  bool has_value_norm = false;
  bool has_sinks = false;
  bool has_latent_attention = false;
  bool has_attention_gate = false;
  bool has_fused_qkv = false;
  bool has_fused_ffn = false;
  bool has_pre_norms = true;
  bool has_post_norms = false;
  bool has_parallel_ffn = false;
  bool has_layer_scales = false;
  std::string_view ffn_norm_tensor = "ffn_norm.weight";
  std::string_view output_norm_tensor = "output_norm.weight";
  bool scales_embedding = false; // by the root of the hidden size
  bool takes_scales = false;     // of embeddings, attention and residuals
  bool has_unscaled_attention = false;
  bool takes_logit_scale = false; // multiplies logits, or divides them:
  bool divides_logits = false;
  bool takes_query_growth = false;
  bool takes_unrotated = false; // rope.scaling.finetuned is false: no layer is rotated
  bool ignores_state = false;   // keys of Mamba's layers, which the family shares with another
  // Recurrent layers: the layers of a period but its last one, or those without KV heads.
  mixer_kind recurrent = mixer_kind::attention; // none
  bool has_recurrent_period = false;            // full_attention_interval
  bool has_short_convolutions = false;
  bool alternates_key_heads = false; // of delta nets
  bool has_joint_weights = false;    // of delta nets
  bool is_of_images = false;         // a model with images, of which only the text is run
  bool rotates_windowed = false;     // in a model with windows only the layers that have one
  bool takes_rope_factors = false;
  bool takes_long_rope_factors = false; // longrope
  bool truncates_yarn = true;           // the ramp has whole borders, if the file does not say
  float yarn_weight_of_all = 0.0F; // rope.scaling.yarn_log_multiplier, if the file does not say
  bool takes_window = false;
  bool takes_soft_caps = false;
  bool takes_final_cap = false;      // of logits, if the file has it
  bool takes_windowed_sizes = false; // heads of layers with a window, sizes and keys by layer
  bool takes_windowed_rope_base = false;
  bool shares_rope_base = false; // the default of layers with a window is the base of the others
  bool takes_experts = false;
  bool normalises_experts = true; // the default without a key
  router_kind router = router_kind::softmax;
  bool has_router_bias = false;
  bool has_choice_bias = false;
  bool takes_choice_bias = false; // if the file has them
  bool takes_expert_groups = false;
  bool has_expert_bias = false;
  bool takes_shared_experts = false;
  bool has_shared_gate = false;
  bool has_ffn_beside_experts = false;
  bool takes_dense_layers = false;         // before the mixtures
  bool takes_later_layers = false;         // which guess further tokens, and are left out
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
