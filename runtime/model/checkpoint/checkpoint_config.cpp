#include "runtime/model/checkpoint/config_reader.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>
#include <utility>

namespace baton::model {
namespace {

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
    checkpoint_family{.architecture = "Phi3ForCausalLM",
                      .family = "phi3",
                      .window = window_rule::with_size,
                      .takes_partial_rotation = true},
    checkpoint_family{.architecture = "SmolLM3ForCausalLM",
                      .family = "smollm3",
                      .window = window_rule::with_flag,
                      .ties_embeddings = true,
                      .rope_base = 2e6},
    checkpoint_family{.architecture = "Gemma2ForCausalLM",
                      .family = "gemma2",
                      .window = window_rule::with_size,
                      .ties_embeddings = true,
                      .adds_one_to_norms = true},
    checkpoint_family{.architecture = "Gemma3ForCausalLM",
                      .family = "gemma3",
                      .window = window_rule::with_size,
                      .ties_embeddings = true,
                      .adds_one_to_norms = true,
                      .rope_base = 1e6},
};

// Fields that GGUF has unchanged. describe() refuses those that the family does not read, by their
// key, unless they are off.
struct plain_field {
  std::string_view field;
  std::string_view key;
};
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
    off_field{"decoder_sparse_step", "1"}, // otherwise only every n-th layer is a mixture
    off_field{"is_encoder_decoder", "false"},
    off_field{"mlp_bias", "false"},
    off_field{"mlp_only_layers", "[]"},
    off_field{"use_bidirectional_attention", "false"},
};

} // namespace

result<checkpoint_config> config_reader::read() {
  out_.architecture = kind_.architecture;
  out_.names.has_post_norms = kind_.has_post_norms;
  out_.adds_one_to_norms = published_.adds_one_to_norms;
  out_.has_attention_bias = kind_.has_attention_bias;
  out_.has_tied_embeddings = flag_of(config_, "tie_word_embeddings", published_.ties_embeddings);
  for (const auto& [field, key] : plain_fields) {
    put(key, member_of(config_, field), std::string(field));
  }
  using step = result<void> (config_reader::*)();
  for (const step each :
       {&config_reader::check_off_fields, &config_reader::check_activation,
        &config_reader::read_experts, &config_reader::read_window, &config_reader::read_layer_types,
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
    const bool is_own = field == "attention_bias" && kind_.has_attention_bias;
    if (value != nullptr && !is_own && shown(*value) != off) {
      return unsupported(field, fmt::format("it as {}", off));
    }
  }
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
  const auto read = read_gptq_config(*quantization);
  if (!read) {
    return read.error();
  }
  out_.gptq = *read;
  return {};
}

result<checkpoint_config> read_checkpoint_config(const json& config) {
  const auto* list = member_of(config, "architectures");
  if (list == nullptr || !list->is_array() || list->size() != 1 || !(*list)[0].is_string()) {
    return fail(errc::bad_model_file, "config.json: 'architectures' does not name one class");
  }
  const auto name = (*list)[0].get<std::string>();
  const auto* published =
      std::ranges::find(checkpoint_families, name, &checkpoint_family::architecture);
  if (published == checkpoint_families.end()) {
    std::string names;
    for (const auto& row : checkpoint_families) {
      names += names.empty() ? "" : ", ";
      names += row.architecture;
    }
    return fail(errc::unsupported_model, "config.json: architecture '{}': this build runs {}", name,
                names);
  }
  const auto kind = family_of(published->family);
  if (!kind) {
    return kind.error();
  }
  return config_reader(config, *published, *kind).read();
}

} // namespace baton::model
