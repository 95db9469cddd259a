// The table of families, and the table of keys.
#include "runtime/model/family.hpp"

#include <algorithm>
#include <array>

namespace baton::model {
namespace {

constexpr std::array families = {
    family{.architecture = "llama",
           .takes_rope_factors = true,
           .takes_window = true,
           .takes_experts = true}, // Mixtral
    family{.architecture = "qwen2", .rope = rope_kind::neox, .has_attention_bias = true},
    family{.architecture = "qwen2moe",
           .rope = rope_kind::neox,
           .has_attention_bias = true,
           .takes_experts = true,
           .normalises_experts = false,
           .takes_shared_experts = true,
           .has_shared_gate = true},
    family{.architecture = "qwen3", .rope = rope_kind::neox, .qk_norm = qk_norm_kind::heads},
    family{.architecture = "qwen3moe",
           .rope = rope_kind::neox,
           .qk_norm = qk_norm_kind::heads,
           .takes_experts = true},
    family{.architecture = "qwen2vl", // the text of Qwen2-VL and Qwen2.5-VL
           .rope = rope_kind::neox,
           .has_attention_bias = true,
           .is_of_images = true},
    family{.architecture = "qwen3vl",
           .rope = rope_kind::neox,
           .qk_norm = qk_norm_kind::heads,
           .is_of_images = true},
    family{.architecture = "qwen3vlmoe",
           .rope = rope_kind::neox,
           .qk_norm = qk_norm_kind::heads,
           .is_of_images = true,
           .takes_experts = true},
    family{.architecture = "qwen3next",
           .rope = rope_kind::neox,
           .qk_norm = qk_norm_kind::heads,
           .has_attention_gate = true,
           .ffn_norm_tensor = "post_attention_norm.weight",
           .recurrent = mixer_kind::delta_net,
           .has_recurrent_period = true,
           .has_joint_weights = true,
           .takes_experts = true,
           .takes_shared_experts = true,
           .has_shared_gate = true,
           .full_attention_period = 4},
    family{.architecture = "qwen35", // and Qwen3.6
           .rope = rope_kind::neox,
           .qk_norm = qk_norm_kind::heads,
           .has_attention_gate = true,
           .ffn_norm_tensor = "post_attention_norm.weight",
           .recurrent = mixer_kind::delta_net,
           .has_recurrent_period = true,
           .alternates_key_heads = true,
           .takes_later_layers = true,
           .full_attention_period = 4},
    family{.architecture = "qwen35moe",
           .rope = rope_kind::neox,
           .qk_norm = qk_norm_kind::heads,
           .has_attention_gate = true,
           .ffn_norm_tensor = "post_attention_norm.weight",
           .recurrent = mixer_kind::delta_net,
           .has_recurrent_period = true,
           .alternates_key_heads = true,
           .takes_experts = true,
           .takes_shared_experts = true,
           .has_shared_gate = true,
           .takes_later_layers = true,
           .full_attention_period = 4},
    family{.architecture = "phi3",
           .rope = rope_kind::neox,
           .has_fused_qkv = true,
           .has_fused_ffn = true,
           .takes_long_rope_factors = true,
           .takes_window = true},
    family{.architecture = "smollm3", .unrotated_period = 4},
    family{.architecture = "gemma2",
           .rope = rope_kind::neox,
           .activation = activation_kind::gelu,
           .has_post_norms = true,
           .scales_embedding = true,
           .takes_window = true,
           .takes_soft_caps = true,
           .default_window = 4096,
           .full_attention_period = 2,
           .wide_scale_layer_count = 46},
    family{.architecture = "gemma3",
           .rope = rope_kind::neox,
           .activation = activation_kind::gelu,
           .qk_norm = qk_norm_kind::heads,
           .has_post_norms = true,
           .scales_embedding = true,
           .takes_window = true,
           .takes_windowed_rope_base = true,
           .full_attention_period = 6,
           .wide_scale_layer_count = 62},
    family{.architecture = "gemma4",
           .rope = rope_kind::neox,
           .activation = activation_kind::gelu,
           .qk_norm = qk_norm_kind::heads,
           .has_value_norm = true,
           .has_post_norms = true,
           .has_layer_scales = true,
           .scales_embedding = true,
           .has_unscaled_attention = true,
           .takes_rope_factors = true,
           .takes_window = true,
           .takes_final_cap = true,
           .takes_windowed_sizes = true,
           .takes_windowed_rope_base = true,
           .takes_experts = true,
           .has_ffn_beside_experts = true,
           .default_window = 512,
           .full_attention_period = 6},
    family{.architecture = "mistral3",
           .takes_query_growth = true,
           .takes_rope_factors = true,
           .yarn_weight_of_all = 1.0F,
           .takes_window = true},
    family{.architecture = "olmo2", // and OLMo 3, which has windows
           .rope = rope_kind::neox,
           .qk_norm = qk_norm_kind::rows,
           .has_pre_norms = false,
           .has_post_norms = true,
           .takes_window = true,
           .takes_windowed_rope_base = true,
           .shares_rope_base = true,
           .full_attention_period = 4},
    family{.architecture = "granite", // and Granite 4 without Mamba
           .takes_scales = true,
           .takes_logit_scale = true,
           .divides_logits = true,
           .takes_unrotated = true,
           .ignores_state = true},
    family{.architecture = "granitemoe",
           .takes_scales = true,
           .takes_logit_scale = true,
           .divides_logits = true,
           .takes_unrotated = true,
           .ignores_state = true,
           .takes_experts = true,
           .takes_shared_experts = true},
    family{.architecture = "granitehybrid",
           .takes_scales = true,
           .takes_logit_scale = true,
           .divides_logits = true,
           .takes_unrotated = true,
           .recurrent = mixer_kind::mamba2,
           .takes_experts = true,
           .takes_shared_experts = true},
    family{.architecture = "lfm2",
           .rope = rope_kind::neox,
           .qk_norm = qk_norm_kind::heads,
           .output_norm_tensor = "token_embd_norm.weight",
           .recurrent = mixer_kind::short_convolution,
           .has_short_convolutions = true},
    family{.architecture = "lfm2moe",
           .rope = rope_kind::neox,
           .qk_norm = qk_norm_kind::heads,
           .output_norm_tensor = "token_embd_norm.weight",
           .recurrent = mixer_kind::short_convolution,
           .has_short_convolutions = true,
           .takes_experts = true,
           .router = router_kind::sigmoid,
           .has_choice_bias = true,
           .takes_dense_layers = true},
    family{.architecture = "cohere2",
           .norm = norm_kind::layer,
           .has_parallel_ffn = true,
           .takes_logit_scale = true,
           .rotates_windowed = true,
           .takes_window = true,
           .default_window = 4096,
           .full_attention_period = 4},
    family{.architecture = "ernie4_5"},
    family{.architecture = "ernie4_5-moe",
           .takes_experts = true,
           .takes_choice_bias = true,
           .takes_shared_experts = true,
           .takes_dense_layers = true},
    family{.architecture = "seed_oss",
           .rope = rope_kind::neox,
           .takes_attention_bias = true,
           .ffn_norm_tensor = "post_attention_norm.weight"},
    family{.architecture = "exaone4",
           .rope = rope_kind::neox,
           .qk_norm = qk_norm_kind::heads,
           .has_pre_norms = false,
           .has_post_norms = true,
           .rotates_windowed = true,
           .takes_rope_factors = true,
           .takes_window = true,
           .full_attention_period = 4},
    family{.architecture = "hunyuan-dense",
           .rope = rope_kind::neox,
           .qk_norm = qk_norm_kind::rotated_heads},
    family{.architecture = "glm4",
           .takes_attention_bias = true,
           .has_fused_ffn = true,
           .has_post_norms = true},
    family{.architecture = "glm4moe", // GLM-4.5 to 4.7
           .rope = rope_kind::neox,
           .takes_qk_norm = true,
           .takes_attention_bias = true,
           .ffn_norm_tensor = "post_attention_norm.weight",
           .takes_experts = true,
           .router = router_kind::sigmoid,
           .has_choice_bias = true,
           .takes_shared_experts = true,
           .takes_dense_layers = true,
           .takes_later_layers = true},
    family{.architecture = "deepseek2", // V2, V3, R1, Kimi K2, GLM-4.7-Flash
           .has_latent_attention = true,
           .takes_experts = true,
           .normalises_experts = false,
           .takes_choice_bias = true,
           .takes_expert_groups = true,
           .takes_shared_experts = true,
           .takes_dense_layers = true,
           .takes_later_layers = true},
    family{.architecture = "mistral4", // Mistral Small 4
           .has_latent_attention = true,
           .takes_query_growth = true,
           .takes_experts = true,
           .takes_choice_bias = true,
           .takes_shared_experts = true,
           .takes_dense_layers = true},
    family{.architecture = "minimax-m2",
           .rope = rope_kind::neox,
           .qk_norm = qk_norm_kind::rows,
           .takes_experts = true,
           .router = router_kind::sigmoid,
           .has_choice_bias = true},
    family{.architecture = "gpt-oss",
           .rope = rope_kind::neox,
           .activation = activation_kind::clamped_silu,
           .has_attention_bias = true,
           .has_attention_out_bias = true,
           .has_sinks = true,
           .ffn_norm_tensor = "post_attention_norm.weight",
           .truncates_yarn = false,
           .takes_window = true,
           .takes_experts = true,
           .has_router_bias = true,
           .has_expert_bias = true,
           .full_attention_period = 2},
};

// Keys that are read into the description, or that never change the arithmetic.
constexpr std::array<std::string_view, 24> keys_read = {
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_epsilon",
    "attention.layer_norm_rms_epsilon",
    "attention.value_length",
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.layer_pattern", // not in GGUF: of config.json
    "rope.scale_linear",
    "rope.scaling.factor",
    "rope.scaling.finetuned", // describes the model's training
    "rope.scaling.attn_factor",
    "rope.scaling.original_context_length", // of yarn and longrope
    "rope.scaling.type",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "rope.scaling.yarn_log_multiplier",
    "rope.scaling.yarn_truncate", // not in GGUF: of config.json
    "vocab_size",
};

// Keys of features that no engine or only some families support, each with the value that means
// "off". Files often contain them switched off; if switched on, they are refused.
struct feature_key {
  std::string_view key;
  std::string_view off;            // a number, "true", "false" or a string
  bool family::*read_by = nullptr; // families that read it instead
  bool family::*or_by = nullptr;
};
constexpr std::array feature_keys = {
    feature_key{"attention.causal", "true"},
    feature_key{"attention.clamp_kqv", "0"},
    feature_key{"attention.key_length_swa", "0", &family::takes_windowed_sizes},
    feature_key{"attention.key_length_mla", "0", &family::has_latent_attention},
    feature_key{"attention.keys_as_values", "false", // not in GGUF: of config.json
                &family::takes_windowed_sizes},
    feature_key{"attention.kv_lora_rank", "0", &family::has_latent_attention},
    feature_key{"attention.max_alibi_bias", "0"},
    feature_key{"attention.q_lora_rank", "0", &family::has_latent_attention},
    feature_key{"attention.scale", "0", &family::takes_scales},
    feature_key{"attention.shared_kv_layers", "0", &family::takes_windowed_sizes},
    feature_key{"attention.sliding_window", "0", &family::takes_window},
    feature_key{"attention.sliding_window_pattern", "0", &family::takes_window},
    feature_key{"attention.value_length_mla", "0", &family::has_latent_attention},
    feature_key{"attention.value_length_swa", "0", &family::takes_windowed_sizes},
    feature_key{"attn_logit_softcapping", "0", &family::takes_soft_caps},
    feature_key{"attention.temperature_scale", "0", &family::takes_query_growth},
    feature_key{"embedding_length_per_layer_input", "0", &family::takes_windowed_sizes},
    feature_key{"embedding_scale", "1", &family::takes_scales},
    feature_key{"expert_count", "0", &family::takes_experts},
    feature_key{"expert_feed_forward_length", "0", &family::takes_experts},
    feature_key{"expert_gating_func", "1", // softmax
                &family::has_choice_bias, &family::takes_choice_bias},
    feature_key{"expert_group_count", "1", &family::takes_expert_groups},
    feature_key{"expert_group_used_count", "1", &family::takes_expert_groups},
    feature_key{"expert_shared_count", "0", &family::takes_shared_experts},
    feature_key{"expert_shared_feed_forward_length", "0", &family::takes_shared_experts},
    feature_key{"expert_used_count", "0", &family::takes_experts},
    feature_key{"expert_weights_norm", "false", &family::takes_experts},
    feature_key{"expert_weights_scale", "1", &family::has_choice_bias, &family::takes_choice_bias},
    feature_key{"final_logit_softcapping", "0", &family::takes_soft_caps, &family::takes_final_cap},
    feature_key{"full_attention_interval", "1", &family::has_recurrent_period},
    feature_key{"interleave_moe_layer_step", "1"}, // all layers but the first ones are mixtures
    feature_key{"leading_dense_block_count", "0", &family::takes_dense_layers},
    feature_key{"logit_scale", "1", &family::takes_logit_scale},
    feature_key{"n_deepstack_layers", "0", &family::is_of_images}, // of images
    feature_key{"nextn_predict_layers", "0", &family::takes_later_layers},
    feature_key{"pooling_type", "0"},
    feature_key{"residual_scale", "1", &family::takes_scales},
    // For text the three sections of a position are equal.
    feature_key{"rope.dimension_count_swa", "0", &family::takes_windowed_sizes},
    feature_key{"rope.dimension_sections", "none", &family::has_recurrent_period,
                &family::is_of_images},
    feature_key{"shortconv.l_cache", "0", &family::has_short_convolutions},
    feature_key{"rope.freq_base_swa", "0", &family::takes_windowed_rope_base},
    feature_key{"rope.scaling.yarn_attn_factor", "1"},
    feature_key{"rope.scaling.yarn_ext_factor", "1"},
    feature_key{"tensor_data_layout", "Meta AI original pth"}, // written by the llama converter
    feature_key{"use_parallel_residual", "false"},
};

// The value as text in the form of feature_key::off; nullopt for arrays.
std::optional<std::string> file_text(const model_file& file, const std::string& key) {
  if (const auto b = file.get_bool(key)) {
    return *b ? "true" : "false";
  }
  if (const auto u = file.get_u64(key)) {
    return fmt::format("{}", *u);
  }
  if (const auto f = file.get_f32(key)) {
    return fmt::format("{}", *f);
  }
  if (auto s = file.get_string(key)) {
    return *std::move(s);
  }
  return std::nullopt;
}

} // namespace

std::string supported_architectures() {
  std::string names;
  for (const auto& row : families) {
    names += names.empty() ? "" : ", ";
    names += row.architecture;
  }
  return names;
}

result<family> family_of(std::string_view architecture) {
  const auto* row = std::ranges::find(families, architecture, &family::architecture);
  if (row == families.end()) {
    return fail(errc::unsupported_model, "architecture '{}': this build runs {}", architecture,
                supported_architectures());
  }
  return *row;
}

result<void> check_keys(const model_file& file, const family& kind) {
  const auto prefix = fmt::format("{}.", kind.architecture);
  for (const auto& key : file.keys()) {
    if (!key.starts_with(prefix)) {
      continue;
    }
    const auto rest = std::string_view(key).substr(prefix.size());
    if (std::ranges::find(keys_read, rest) != keys_read.end() ||
        ((kind.ignores_state || kind.recurrent != mixer_kind::attention) &&
         rest.starts_with("ssm."))) {
      continue;
    }
    const auto feature = std::ranges::find(feature_keys, rest, &feature_key::key);
    if (feature == feature_keys.end()) {
      return fail(errc::unsupported_model,
                  "metadata key '{}' is not known to this build and may change the arithmetic",
                  file.original_name(key));
    }
    const auto reads = [&](bool family::*by) { return by != nullptr && kind.*by; };
    if (reads(feature->read_by) || reads(feature->or_by)) {
      continue;
    }
    const auto found = file_text(file, key);
    if (!found || *found != feature->off) {
      return fail(errc::unsupported_model, "metadata key '{}' is {}: this build only runs it as {}",
                  file.original_name(key), found.value_or("an array"), feature->off);
    }
  }
  return {};
}

} // namespace baton::model
