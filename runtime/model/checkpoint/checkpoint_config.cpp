#include "runtime/model/checkpoint/checkpoint_config.hpp"

#include "runtime/model/family.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>
#include <utility>

namespace baton::model {
namespace {

// The condition under which transformers' class gives its layers a window.
enum class window_rule : std::uint8_t { never, with_size, with_flag };

// The class whose fields and names a mixture's experts use.
enum class expert_rule : std::uint8_t { none, mixtral, qwen3 };

// Properties that config.json leaves to transformers' class of that name.
struct checkpoint_family {
  std::string_view architecture; // as in config.json
  std::string_view family;       // as in family.cpp
  window_rule window = window_rule::never;
  expert_rule experts = expert_rule::none;
  bool ties_embeddings = false; // the default
  bool adds_one_to_norms = false;
  bool takes_partial_rotation = false;
  double rope_base = 1e4; // the default
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

// Reads one config.json into one checkpoint_config.
class config_reader {
public:
  config_reader(const json& config, const checkpoint_family& published, const family& kind)
      : config_(config), published_(published), kind_(kind) {}

  result<checkpoint_config> read() {
    out_.architecture = kind_.architecture;
    out_.names.has_post_norms = kind_.has_post_norms;
    out_.adds_one_to_norms = published_.adds_one_to_norms;
    out_.has_attention_bias = kind_.has_attention_bias;
    out_.has_tied_embeddings = flag_of(config_, "tie_word_embeddings", published_.ties_embeddings);
    for (const auto& [field, key] : plain_fields) {
      put(key, member_of(config_, field), std::string(field));
    }
    using step = result<void> (config_reader::*)();
    for (const step each : {&config_reader::check_off_fields, &config_reader::check_activation,
                            &config_reader::read_experts, &config_reader::read_window,
                            &config_reader::check_layer_types, &config_reader::check_rotated_layers,
                            &config_reader::check_query_scale, &config_reader::read_rope,
                            &config_reader::read_quantization}) {
      if (auto r = (this->*each)(); !r) {
        return r.error();
      }
    }
    return std::move(out_);
  }

private:
  std::string key_of(std::string_view key) const {
    return fmt::format("{}.{}", kind_.architecture, key);
  }
  void put(std::string_view key, const json* value, std::string field) {
    if (value != nullptr) {
      out_.values.insert_or_assign(key_of(key), *value);
    }
    out_.fields.insert_or_assign(key_of(key), std::move(field));
  }
  // A number of the file; nullopt if there is none.
  static std::optional<double> number(const json* value) {
    return value != nullptr && value->is_number() ? std::optional(value->get<double>())
                                                  : std::nullopt;
  }
  std::optional<double> number(std::string_view field) const {
    return number(member_of(config_, field));
  }
  // 0 if the file does not specify it.
  double head_size() const {
    const auto heads = number("num_attention_heads"), hidden = number("hidden_size");
    return number("head_dim").value_or(heads && hidden ? *hidden / *heads : 0.0);
  }
  error unsupported(std::string_view field, std::string_view runs) const {
    const auto* value = member_of(config_, field);
    return fail(errc::unsupported_model, "config.json: '{}' is {}: this build runs {}", field,
                value != nullptr ? shown(*value) : "absent", runs);
  }
  static std::string shown(const json& value) {
    constexpr std::size_t shown_max = 80;
    const auto text = value.dump(-1, ' ', true, json::error_handler_t::replace);
    return text.size() <= shown_max ? text : text.substr(0, shown_max) + "..";
  }

  result<void> check_off_fields();
  result<void> check_activation();
  result<void> read_experts();
  result<void> read_window();
  result<void> check_layer_types();
  result<void> check_rotated_layers();
  result<void> check_query_scale();
  result<void> read_rope();
  result<void> read_quantization();
  result<void> read_scaling(const json& rope, const std::string& type);
  result<void> take_llama3_factors(const json& rope, double base);
  result<void> read_rotated_part(const json& rope);
  bool has_window(std::uint64_t layer) const {
    const auto period = kind_.full_attention_period;
    return has_window_ && (period == 0 || (layer + 1) % period != 0);
  }

  const json& config_;
  const checkpoint_family& published_;
  const family& kind_;
  bool has_window_ = false;
  checkpoint_config out_;
};

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

// Newer versions of transformers write the number of experts under the same name for both classes,
// and read either name.
result<void> config_reader::read_experts() {
  if (published_.experts == expert_rule::none) {
    return {};
  }
  const bool is_mixtral = published_.experts == expert_rule::mixtral;
  out_.names.has_block_sparse_moe = is_mixtral;
  std::string_view count = "num_experts", other = "num_local_experts";
  if (is_mixtral) {
    std::swap(count, other);
  }
  if (member_of(config_, count) == nullptr && member_of(config_, other) != nullptr) {
    count = other;
  }
  std::vector<plain_field> sizes = {{count, "expert_count"},
                                    {"num_experts_per_tok", "expert_used_count"}};
  if (!is_mixtral) {
    sizes.push_back({"moe_intermediate_size", "expert_feed_forward_length"});
    constexpr std::string_view norm = "norm_topk_prob";
    const json off = false;
    const auto* value = member_of(config_, norm);
    put("expert_weights_norm", value != nullptr ? value : &off, std::string(norm));
  }
  for (const auto& [field, key] : sizes) {
    const auto* value = member_of(config_, field);
    if (value == nullptr) {
      return fail(errc::bad_model_file, "config.json: '{}' is missing", field);
    }
    put(key, value, std::string(field));
  }
  return {};
}

result<void> config_reader::read_window() {
  constexpr std::string_view field = "sliding_window";
  if (published_.window == window_rule::with_flag &&
      flag_of(config_, "use_sliding_window", false)) {
    return unsupported("use_sliding_window", "false");
  }
  const auto* size = member_of(config_, field);
  if (published_.window != window_rule::with_size || size == nullptr) {
    if (published_.window == window_rule::with_size && kind_.full_attention_period != 0) {
      return unsupported(field, "a number of positions");
    }
    return {};
  }
  has_window_ = true;
  put("attention.sliding_window", size, std::string(field));
  return {};
}

// The family defines which layers have a window; the file must agree.
result<void> config_reader::check_layer_types() {
  constexpr std::string_view field = "layer_types";
  for (const auto* period : {"sliding_window_pattern", "_sliding_window_pattern"}) {
    if (const auto n = number(period); n && has_window_ && *n != kind_.full_attention_period) {
      return unsupported(period, fmt::format("{}", kind_.full_attention_period));
    }
  }
  const auto* list = member_of(config_, field);
  if (list == nullptr) {
    return {};
  }
  if (!list->is_array()) {
    return unsupported(field, "a list");
  }
  for (std::size_t layer = 0; layer < list->size(); ++layer) {
    const auto* wanted = has_window(layer) ? "sliding_attention" : "full_attention";
    if ((*list)[layer] != wanted) {
      return fail(errc::unsupported_model,
                  "config.json: '{}' is {} for layer {}: this build runs {} there", field,
                  shown((*list)[layer]), layer, wanted);
    }
  }
  return {};
}

// The family also defines the layers without a rotary embedding; the file must agree.
result<void> config_reader::check_rotated_layers() {
  const auto period = kind_.unrotated_period;
  if (period == 0) {
    return {};
  }
  constexpr std::string_view field = "no_rope_layers"; // 0: the layer has none
  const auto* list = member_of(config_, field);
  if (list == nullptr) {
    const auto interval = number("no_rope_layer_interval");
    return interval && *interval != period
               ? unsupported("no_rope_layer_interval", fmt::format("{}", period))
               : result<void>();
  }
  if (!list->is_array()) {
    return unsupported(field, "a list");
  }
  for (std::size_t layer = 0; layer < list->size(); ++layer) {
    if ((*list)[layer] != ((layer + 1) % period == 0 ? 0 : 1)) {
      return unsupported(field, fmt::format("every {}th layer without a rotation", period));
    }
  }
  return {};
}

// GGUF has no key for the query scale: the family decides.
result<void> config_reader::check_query_scale() {
  constexpr std::string_view field = "query_pre_attn_scalar";
  const auto scale = number(field);
  const auto heads = number("num_attention_heads");
  const auto hidden = number("hidden_size");
  if (!scale || !heads || !hidden || *heads <= 0) {
    return {};
  }
  const bool is_wide =
      number("num_hidden_layers") == static_cast<double>(kind_.wide_scale_layer_count);
  const auto wanted = is_wide ? *hidden / *heads : number("head_dim").value_or(*hidden / *heads);
  return *scale == wanted ? result<void>() : unsupported(field, fmt::format("{}", wanted));
}

// Two forms: an object "rope_parameters" (transformers 5; one per kind of layer in Gemma 3), or
// fields of config.json, with an object "rope_scaling" for scaled models.
result<void> config_reader::read_rope() {
  const auto* newer = member_of(config_, "rope_parameters");
  const auto* full = newer != nullptr ? member_of(*newer, "full_attention") : nullptr;
  const auto* windowed = newer != nullptr ? member_of(*newer, "sliding_attention") : nullptr;
  const auto* scaling = member_of(config_, "rope_scaling");
  const json nothing = json::object();
  const json& rope = full != nullptr      ? *full
                     : newer != nullptr   ? *newer
                     : scaling != nullptr ? *scaling
                                          : nothing;
  if (!rope.is_object()) {
    return unsupported(newer != nullptr ? "rope_parameters" : "rope_scaling", "an object");
  }
  const json published_base = published_.rope_base;
  const auto* base = member_of(newer != nullptr ? rope : config_, "rope_theta");
  put("rope.freq_base", base != nullptr ? base : &published_base, "rope_theta");
  if (windowed != nullptr) {
    if (const auto type = text_of(*windowed, "rope_type", "default"); type != "default") {
      return fail(errc::unsupported_model,
                  "config.json: rope_type '{}' of sliding_attention: this build runs default there",
                  type);
    }
    put("rope.freq_base_swa", member_of(*windowed, "rope_theta"), "rope_theta");
  } else if (kind_.takes_windowed_rope_base) {
    put("rope.freq_base_swa", member_of(config_, "rope_local_base_freq"), "rope_local_base_freq");
  }
  if (auto r = read_rotated_part(rope); !r) {
    return r;
  }
  const auto type = text_of(rope, "rope_type", text_of(rope, "type", "default"));
  if (type == "llama3" && kind_.takes_rope_factors) {
    return take_llama3_factors(rope, number(base).value_or(published_.rope_base));
  }
  return read_scaling(rope, type);
}

result<void> config_reader::read_scaling(const json& rope, const std::string& type) {
  if (type == "default") {
    return {};
  }
  if (type != "linear") {
    return fail(errc::unsupported_model,
                "config.json: rope_type '{}' with {}: this build runs default, linear{}", type,
                published_.architecture, kind_.takes_rope_factors ? " and llama3" : "");
  }
  const json linear = type;
  put("rope.scaling.type", &linear, "rope_type");
  const auto* factor = member_of(rope, "factor");
  if (factor == nullptr) {
    return fail(errc::bad_model_file, "config.json: rope_type 'linear' without a factor");
  }
  put("rope.scaling.factor", factor, "factor");
  return {};
}

// The factor stretches long waves and keeps short ones, with a ramp between them, as in Llama 3.1's
// reference code.
result<void> config_reader::take_llama3_factors(const json& rope, double base) {
  std::array<double, 4> values{};
  constexpr std::array<std::string_view, 4> names = {
      "factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto value = number(member_of(rope, names[i]));
    if (!value || !(*value > 0.0)) {
      return fail(errc::bad_model_file, "config.json: rope_type 'llama3' needs a positive '{}'",
                  names[i]);
    }
    values[i] = *value;
  }
  const auto [factor, low, high, original] = values;
  const double size = head_size();
  constexpr double head_size_max = 1 << 20;
  if (!(size >= 2.0 && size <= head_size_max) || !(high > low)) {
    return fail(errc::bad_model_file,
                "config.json: rope_type 'llama3' with heads of {}, from {} to {}", size, low, high);
  }
  for (double i = 0; i < std::floor(size / 2); ++i) {
    const double wavelength = 2 * std::numbers::pi * std::pow(base, 2 * i / size);
    const double ramp = std::clamp((original / wavelength - low) / (high - low), 0.0, 1.0);
    out_.rope_factors.push_back(static_cast<float>(1.0 / ((1.0 - ramp) / factor + ramp)));
  }
  return {};
}

result<void> config_reader::read_rotated_part(const json& rope) {
  constexpr std::string_view field = "partial_rotary_factor";
  auto part = number(member_of(rope, field));
  if (!part) {
    part = number(field);
  }
  if (!part || *part == 1.0) {
    return {};
  }
  const double size = head_size();
  if (!published_.takes_partial_rotation || !(*part > 0.0 && *part < 1.0) ||
      !(size > 0.0 && size < 1e6)) {
    return fail(errc::unsupported_model, "config.json: '{}' is {}: this build runs {} with {}",
                field, *part, published_.takes_partial_rotation ? "0 to 1" : "1",
                published_.architecture);
  }
  const json dimensions = static_cast<std::uint64_t>(*part * size);
  put("rope.dimension_count", &dimensions, std::string(field));
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

} // namespace

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
