#include "runtime/model/checkpoint/config_reader.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>
#include <utility>

namespace baton::model {
namespace {

constexpr std::array granite_fields = {
    plain_field{"attention_multiplier", "attention.scale", 1.0},
    plain_field{"embedding_multiplier", "embedding_scale"},
    plain_field{"logits_scaling", "logit_scale"},
    plain_field{"residual_multiplier", "residual_scale"},
};
constexpr std::array cohere_fields = {
    plain_field{"layer_norm_eps", "attention.layer_norm_epsilon", 1e-5},
    plain_field{"logit_scale", "logit_scale", 0.0625},
};
constexpr std::array glm_moe_fields = {
    plain_field{"n_shared_experts", "expert_shared_count", 1.0},
    plain_field{"first_k_dense_replace", "leading_dense_block_count", 1.0},
    plain_field{"n_group", "expert_group_count"},
    plain_field{"topk_group", "expert_group_used_count"},
    plain_field{"routed_scaling_factor", "expert_weights_scale"},
};

constexpr std::array deepseek_v2_fields = {
    plain_field{"n_shared_experts", "expert_shared_count", 2.0},
    plain_field{"first_k_dense_replace", "leading_dense_block_count", 0.0},
    plain_field{"routed_scaling_factor", "expert_weights_scale"},
};
constexpr std::array deepseek_v3_fields = {
    plain_field{"n_shared_experts", "expert_shared_count", 1.0},
    plain_field{"first_k_dense_replace", "leading_dense_block_count", 3.0},
    plain_field{"n_group", "expert_group_count", 8.0},
    plain_field{"topk_group", "expert_group_used_count", 4.0},
    plain_field{"routed_scaling_factor", "expert_weights_scale", 2.5},
};
constexpr std::array mistral4_fields = {
    plain_field{"n_shared_experts", "expert_shared_count", 1.0},
    plain_field{"first_k_dense_replace", "leading_dense_block_count", 0.0},
    plain_field{"n_group", "expert_group_count", 1.0},
    plain_field{"topk_group", "expert_group_used_count", 1.0},
    plain_field{"routed_scaling_factor", "expert_weights_scale", 1.0},
};
constexpr std::array ernie_moe_fields = {
    plain_field{"moe_k", "expert_used_count", 6.0},
    plain_field{"moe_layer_interval", "interleave_moe_layer_step"},
    plain_field{"moe_layer_start_index", "leading_dense_block_count", 1.0},
    plain_field{"moe_num_shared_experts", "expert_shared_count", 2.0},
};
// read_dense_layers() counts the dense layers of `mlp_layer_types`.
constexpr std::array glm_lite_fields = {
    plain_field{"n_shared_experts", "expert_shared_count", 1.0},
    plain_field{"mlp_layer_types", "leading_dense_block_count", 1.0},
    plain_field{"n_group", "expert_group_count", 1.0},
    plain_field{"topk_group", "expert_group_used_count", 1.0},
    plain_field{"rms_norm_eps", "attention.layer_norm_rms_epsilon", 1e-5},
    plain_field{"routed_scaling_factor", "expert_weights_scale", 1.8},
};

// The sizes of recurrent layers: delta nets, Mamba, short convolutions.
constexpr std::array delta_net_fields = {
    plain_field{"linear_conv_kernel_dim", "ssm.conv_kernel", 4.0},
    plain_field{"linear_key_head_dim", "ssm.state_size", 128.0},
    plain_field{"linear_num_key_heads", "ssm.group_count", 16.0},
    plain_field{"linear_num_value_heads", "ssm.time_step_rank", 32.0},
};
constexpr std::array granite_mamba_fields = {
    plain_field{"attention_multiplier", "attention.scale", 1.0},
    plain_field{"embedding_multiplier", "embedding_scale"},
    plain_field{"logits_scaling", "logit_scale"},
    plain_field{"residual_multiplier", "residual_scale"},
    plain_field{"mamba_d_conv", "ssm.conv_kernel", 4.0},
    plain_field{"mamba_d_state", "ssm.state_size", 256.0},
    plain_field{"mamba_n_groups", "ssm.group_count", 1.0},
    plain_field{"mamba_n_heads", "ssm.time_step_rank", 128.0},
};
constexpr std::array lfm2_fields = {
    plain_field{"conv_L_cache", "shortconv.l_cache", 3.0},
    plain_field{"norm_eps", "attention.layer_norm_rms_epsilon", 1e-5},
    plain_field{"block_ff_dim", "feed_forward_length"}, // of older files
};
constexpr std::array lfm2_moe_fields = {
    plain_field{"conv_L_cache", "shortconv.l_cache", 3.0},
    plain_field{"norm_eps", "attention.layer_norm_rms_epsilon", 1e-5},
    plain_field{"num_dense_layers", "leading_dense_block_count", 2.0},
    plain_field{"routed_scaling_factor", "expert_weights_scale"},
};

constexpr std::array gemma4_fields = {
    plain_field{"hidden_size_per_layer_input", "embedding_length_per_layer_input", 256.0},
    plain_field{"num_kv_shared_layers", "attention.shared_kv_layers", 0.0},
};

constexpr std::array checkpoint_families = {
    checkpoint_family{.architecture = "LlamaForCausalLM", .family = "llama"},
    checkpoint_family{
        .architecture = "MistralForCausalLM", .family = "llama", .window = window_rule::with_size},
    checkpoint_family{.architecture = "MixtralForCausalLM",
                      .family = "llama",
                      .window = window_rule::with_size,
                      .experts = expert_rule::mixtral,
                      .rope_base = 1e6},
    checkpoint_family{
        .architecture = "Qwen2ForCausalLM", .family = "qwen2", .window = window_rule::with_flag},
    checkpoint_family{
        .architecture = "Qwen3ForCausalLM", .family = "qwen3", .window = window_rule::with_flag},
    checkpoint_family{.architecture = "Qwen3MoeForCausalLM",
                      .family = "qwen3moe",
                      .window = window_rule::with_flag,
                      .experts = expert_rule::qwen3},
    checkpoint_family{.architecture = "Qwen3VLForConditionalGeneration",
                      .family = "qwen3vl",
                      .rope_base = 5e6,
                      .larger = "Qwen3VLForConditionalGeneration"},
    checkpoint_family{.architecture = "Qwen3_5ForCausalLM",
                      .family = "qwen35",
                      .adds_one_to_norms = true,
                      .takes_partial_rotation = true,
                      .rotated_part = 0.25,
                      .norms = norm_names::as_post,
                      .fields = delta_net_fields,
                      .larger = "Qwen3_5ForConditionalGeneration"},
    checkpoint_family{.architecture = "Qwen3_5MoeForCausalLM",
                      .family = "qwen35moe",
                      .experts = expert_rule::qwen3,
                      .adds_one_to_norms = true,
                      .takes_partial_rotation = true,
                      .rotated_part = 0.25,
                      .norms = norm_names::as_post,
                      .fields = delta_net_fields,
                      .normalises_experts = true,
                      .larger = "Qwen3_5MoeForConditionalGeneration"},
    checkpoint_family{.architecture = "Qwen3NextForCausalLM",
                      .family = "qwen3next",
                      .experts = expert_rule::qwen3,
                      .adds_one_to_norms = true,
                      .takes_partial_rotation = true,
                      .rotated_part = 0.25,
                      .norms = norm_names::as_post,
                      .fields = delta_net_fields,
                      .normalises_experts = true},
    checkpoint_family{.architecture = "Lfm2ForCausalLM",
                      .family = "lfm2",
                      .ties_embeddings = true,
                      .rope_base = 1e6,
                      .ffn = moe_names::lfm2,
                      .fields = lfm2_fields},
    checkpoint_family{.architecture = "Lfm2MoeForCausalLM",
                      .family = "lfm2moe",
                      .experts = expert_rule::lfm2,
                      .ties_embeddings = true,
                      .rope_base = 1e6,
                      .ffn = moe_names::lfm2,
                      .fields = lfm2_moe_fields,
                      .normalises_experts = true},
    checkpoint_family{.architecture = "GraniteMoeHybridForCausalLM",
                      .family = "granitehybrid",
                      .ffn = moe_names::granite_dense,
                      .fields = granite_mamba_fields,
                      .has_states = true},
    checkpoint_family{.architecture = "Phi3ForCausalLM",
                      .family = "phi3",
                      .window = window_rule::with_size,
                      .takes_partial_rotation = true},
    checkpoint_family{.architecture = "Qwen2MoeForCausalLM",
                      .family = "qwen2moe",
                      .window = window_rule::with_flag,
                      .experts = expert_rule::qwen3},
    checkpoint_family{.architecture = "Ministral3ForCausalLM",
                      .family = "mistral3",
                      .window = window_rule::with_size},
    checkpoint_family{
        .architecture = "Olmo2ForCausalLM", .family = "olmo2", .norms = norm_names::both},
    checkpoint_family{.architecture = "Olmo3ForCausalLM",
                      .family = "olmo2",
                      .window = window_rule::with_size,
                      .rope_base = 5e5,
                      .norms = norm_names::both},
    checkpoint_family{
        .architecture = "GraniteForCausalLM", .family = "granite", .fields = granite_fields},
    checkpoint_family{.architecture = "GraniteMoeForCausalLM",
                      .family = "granitemoe",
                      .experts = expert_rule::granite,
                      .fields = granite_fields},
    checkpoint_family{.architecture = "GraniteMoeSharedForCausalLM",
                      .family = "granitemoe",
                      .experts = expert_rule::granite,
                      .fields = granite_fields},
    checkpoint_family{.architecture = "GraniteMoeHybridForCausalLM",
                      .family = "granite",
                      .ffn = moe_names::granite_dense,
                      .fields = granite_fields},
    checkpoint_family{.architecture = "Cohere2ForCausalLM",
                      .family = "cohere2",
                      .window = window_rule::with_size,
                      .ties_embeddings = true,
                      .rotates_pairs = true,
                      .fields = cohere_fields},
    checkpoint_family{.architecture = "Ernie4_5ForCausalLM",
                      .family = "ernie4_5",
                      .ties_embeddings = true,
                      .rope_base = 5e5,
                      .rotates_pairs = true},
    checkpoint_family{.architecture = "Ernie4_5_MoeForCausalLM",
                      .family = "ernie4_5-moe",
                      .experts = expert_rule::ernie,
                      .ties_embeddings = true,
                      .rope_base = 5e5,
                      .rotates_pairs = true,
                      .fields = ernie_moe_fields,
                      .normalises_experts = true},
    checkpoint_family{
        .architecture = "SeedOssForCausalLM", .family = "seed_oss", .norms = norm_names::as_post},
    checkpoint_family{.architecture = "Exaone4ForCausalLM",
                      .family = "exaone4",
                      .window = window_rule::with_size,
                      .takes_no_window = true,
                      .norms = norm_names::both},
    checkpoint_family{.architecture = "HunYuanDenseV1ForCausalLM", .family = "hunyuan-dense"},
    checkpoint_family{.architecture = "Glm4ForCausalLM",
                      .family = "glm4",
                      .takes_partial_rotation = true,
                      .rotated_part = 0.5,
                      .rotates_pairs = true,
                      .norms = norm_names::glm},
    checkpoint_family{.architecture = "Glm4MoeForCausalLM",
                      .family = "glm4moe",
                      .experts = expert_rule::glm,
                      .takes_partial_rotation = true,
                      .rotated_part = 0.5,
                      .norms = norm_names::as_post,
                      .fields = glm_moe_fields},
    checkpoint_family{.architecture = "DeepseekV2ForCausalLM",
                      .family = "deepseek2",
                      .experts = expert_rule::deepseek2,
                      .rotates_pairs = true,
                      .fields = deepseek_v2_fields},
    checkpoint_family{.architecture = "DeepseekV3ForCausalLM",
                      .family = "deepseek2",
                      .experts = expert_rule::glm,
                      .rotates_pairs = true,
                      .fields = deepseek_v3_fields},
    checkpoint_family{.architecture = "Glm4MoeLiteForCausalLM",
                      .family = "deepseek2",
                      .experts = expert_rule::glm,
                      .rotates_pairs = true,
                      .fields = glm_lite_fields},
    checkpoint_family{.architecture = "Mistral4ForCausalLM",
                      .family = "mistral4",
                      .experts = expert_rule::glm,
                      .rotates_pairs = true,
                      .fields = mistral4_fields},
    checkpoint_family{.architecture = "MiniMaxM2ForCausalLM",
                      .family = "minimax-m2",
                      .experts = expert_rule::mixtral,
                      .takes_partial_rotation = true,
                      .rope_base = 5e6},
    checkpoint_family{.architecture = "GptOssForCausalLM",
                      .family = "gpt-oss",
                      .window = window_rule::with_size,
                      .experts = expert_rule::gpt_oss,
                      .rope_base = 1.5e5,
                      .norms = norm_names::as_post},
    checkpoint_family{.architecture = "SmolLM3ForCausalLM",
                      .family = "smollm3",
                      .window = window_rule::with_flag,
                      .ties_embeddings = true,
                      .rope_base = 2e6},
    checkpoint_family{.architecture = "Gemma2ForCausalLM",
                      .family = "gemma2",
                      .window = window_rule::with_size,
                      .ties_embeddings = true,
                      .adds_one_to_norms = true,
                      .norms = norm_names::both},
    checkpoint_family{.architecture = "Gemma3ForCausalLM",
                      .family = "gemma3",
                      .window = window_rule::with_size,
                      .ties_embeddings = true,
                      .adds_one_to_norms = true,
                      .rope_base = 1e6,
                      .norms = norm_names::both},
    checkpoint_family{.architecture = "Gemma4ForCausalLM",
                      .family = "gemma4",
                      .window = window_rule::with_size,
                      .experts = expert_rule::gemma,
                      .ties_embeddings = true,
                      .rope_base = 1e6,
                      .norms = norm_names::both,
                      .ffn = moe_names::gemma,
                      .fields = gemma4_fields,
                      .larger = "Gemma4ForConditionalGeneration"},
};

// Fields of every class that GGUF has unchanged. describe() refuses those that the family does not
// read, by their key, unless they are off.
constexpr std::array plain_fields = {
    plain_field{"attn_logit_softcapping", "attn_logit_softcapping"},
    plain_field{"final_logit_softcapping", "final_logit_softcapping"},
    plain_field{"head_dim", "attention.key_length"},
    plain_field{"hidden_size", "embedding_length"},
    plain_field{"intermediate_size", "feed_forward_length"},
    plain_field{"max_position_embeddings", "context_length"},
    plain_field{"num_attention_heads", "attention.head_count"},
    plain_field{"num_hidden_layers", "block_count"},
    plain_field{"num_key_value_heads", "attention.head_count_kv"},
    plain_field{"rms_norm_eps", "attention.layer_norm_rms_epsilon"},
    plain_field{"vocab_size", "vocab_size"},
};

// Fields of unsupported features, with the value that means "off"; null does, too.
struct off_field {
  std::string_view field;
  std::string_view off;
};
constexpr std::array off_fields = {
    off_field{"attention_bias", "false"},
    off_field{"attention_out_bias", "false"},
    off_field{"decoder_sparse_step", "1"}, // otherwise only every n-th layer is a mixture
    off_field{"is_encoder_decoder", "false"},
    off_field{"mlp_bias", "false"},
    off_field{"mlp_only_layers", "[]"},
    off_field{"use_bias", "false"},
    off_field{"use_bidirectional_attention", "false"},
};

} // namespace

// Whether GGUF's key holds an integer.
static bool is_count(std::string_view key) {
  return key.ends_with("_count") || key.starts_with("ssm.") || key == "shortconv.l_cache" ||
         key == "attention.shared_kv_layers" || key == "embedding_length_per_layer_input";
}

result<checkpoint_config> config_reader::read() {
  out_.architecture = kind_.architecture;
  out_.names.norms = published_.norms;
  out_.names.experts = published_.ffn;
  out_.names.is_nested = published_.architecture == published_.larger;
  out_.rotates_halves = !published_.rotates_pairs;
  out_.adds_one_to_norms = published_.adds_one_to_norms;
  out_.has_attention_bias = kind_.has_attention_bias || kind_.takes_attention_bias;
  out_.has_tied_embeddings = flag_of(config_, "tie_word_embeddings", published_.ties_embeddings);
  for (const auto& [field, key, otherwise] : plain_fields) {
    put(key, member_of(config_, field), std::string(field));
  }
  for (const auto& [field, key, otherwise] : published_.fields) {
    const auto* value = member_of(config_, field);
    const json standard = is_count(key) ? json(static_cast<std::uint64_t>(otherwise.value_or(0)))
                                        : json(otherwise.value_or(0));
    put(key, value != nullptr || !otherwise ? value : &standard, std::string(field));
  }
  using step = result<void> (config_reader::*)();
  for (const step each : {&config_reader::check_off_fields, &config_reader::check_activation,
                          &config_reader::read_granite_hybrid, &config_reader::read_recurrence,
                          &config_reader::read_experts, &config_reader::read_groups,
                          &config_reader::read_latent, &config_reader::read_window,
                          &config_reader::read_layer_types, &config_reader::read_layer_sizes,
                          &config_reader::read_rotated_layers, &config_reader::check_query_scale,
                          &config_reader::read_rope, &config_reader::read_quantization}) {
    if (auto r = (this->*each)(); !r) {
      return r.error();
    }
  }
  return std::move(out_);
}

result<void> config_reader::check_off_fields() {
  for (const auto& [field, off] : off_fields) {
    const auto* value = member_of(config_, field);
    const bool is_own = field == "attention_bias" && out_.has_attention_bias;
    // A larger model with images, whose text is causal.
    const bool is_of_images = value != nullptr && field == "use_bidirectional_attention" &&
                              kind_.takes_windowed_sizes && *value == "vision";
    if (value != nullptr && !is_own && !is_of_images && shown(*value) != off) {
      return unsupported(field, fmt::format("it as {}", off));
    }
  }
  return {};
}

// Granite 4 has its class also where no layer has Mamba and no layer is a mixture. The rotation is
// a field, and GGUF has a switch for it.
result<void> config_reader::read_granite_hybrid() {
  if (published_.ffn != moe_names::granite_dense) {
    return {};
  }
  const bool is_mixture = number("num_local_experts").value_or(8.0) != 0.0;
  if (is_mixture && !kind_.takes_experts) {
    return unsupported("num_local_experts", "0 with this class and without recurrent layers");
  }
  const auto* size = member_of(config_, "shared_intermediate_size");
  if (size == nullptr) {
    return fail(errc::bad_model_file, "config.json: 'shared_intermediate_size' is missing");
  }
  if (is_mixture) {
    out_.names.experts = moe_names::granite;
    put("expert_count", member_of(config_, "num_local_experts"), "num_local_experts");
    put("expert_used_count", member_of(config_, "num_experts_per_tok"), "num_experts_per_tok");
    put("expert_shared_feed_forward_length", size, "shared_intermediate_size");
  } else {
    put("feed_forward_length", size, "shared_intermediate_size");
  }
  const json is_rotated = text_of(config_, "position_embedding_type") == "rope";
  put("rope.scaling.finetuned", &is_rotated, "position_embedding_type");
  return {};
}

result<void> config_reader::check_activation() {
  const auto* wanted = kind_.activation == activation_kind::gelu ? "gelu_pytorch_tanh" : "silu";
  const bool has_newer = member_of(config_, "hidden_activation") != nullptr;
  const auto* field = has_newer ? "hidden_activation" : "hidden_act";
  if (text_of(config_, field, wanted) != wanted) {
    return unsupported(field, fmt::format("'{}' with {}", wanted, published_.architecture));
  }
  return {};
}

result<void> config_reader::read_quantization() {
  const auto* quantization = member_of(config_, "quantization_config");
  if (quantization == nullptr) {
    return {};
  }
  auto read = read_quantised_format(*quantization);
  if (!read) {
    return read.error();
  }
  out_.quantised = *std::move(read);
  return {};
}

// Whether `layer_types` names a layer that is recurrent.
static bool has_recurrent_types(const json& config) {
  const auto* list = member_of(config, "layer_types");
  return list == nullptr || !list->is_array() ||
         std::ranges::any_of(*list, config_reader::is_recurrent);
}

// The text model of a larger one, with the fields that stand beside it.
static json nested_text(const json& config) {
  const auto* text = member_of(config, "text_config");
  json found = text != nullptr && text->is_object() ? *text : json::object();
  for (const auto* field : {"tie_word_embeddings", "quantization_config"}) {
    if (const auto* value = member_of(config, field); value != nullptr && !found.contains(field)) {
      found[field] = *value;
    }
  }
  return found;
}

result<checkpoint_config> read_checkpoint_config(const json& config) {
  const auto* list = member_of(config, "architectures");
  if (list == nullptr || !list->is_array() || list->size() != 1 || !(*list)[0].is_string()) {
    return fail(errc::bad_model_file, "config.json: 'architectures' does not name one class");
  }
  const auto name = (*list)[0].get<std::string>();
  const auto* row = std::ranges::find_if(checkpoint_families, [&](const checkpoint_family& each) {
    return (each.architecture == name || each.larger == name) &&
           (!each.has_states || has_recurrent_types(config));
  });
  if (row == checkpoint_families.end()) {
    std::string names;
    for (const auto& each : checkpoint_families) {
      for (const auto known : {each.architecture, each.larger}) {
        if (!each.has_states && !known.empty() && !names.ends_with(known)) {
          names += names.empty() ? "" : ", ";
          names += known;
        }
      }
    }
    return fail(errc::unsupported_model, "config.json: architecture '{}': this build runs {}", name,
                names);
  }
  const auto kind = family_of(row->family);
  if (!kind) {
    return kind.error();
  }
  auto published = *row;
  published.architecture = name;
  const bool is_nested = name == row->larger;
  const json text = is_nested ? nested_text(config) : json();
  return config_reader(is_nested ? text : config, published, *kind).read();
}

} // namespace baton::model
