// Reads config.json step by step into GGUF's keys. Private to read_checkpoint_config().
#pragma once

#include "runtime/model/checkpoint/checkpoint_config.hpp"
#include "runtime/model/family.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace baton::model {

// The condition under which transformers' class gives its layers a window.
enum class window_rule : std::uint8_t { never, with_size, with_flag };

// The class whose fields and names a mixture's experts use.
enum class expert_rule : std::uint8_t {
  none,
  mixtral,
  qwen3,
  granite,
  glm,
  lfm2,
  gpt_oss,
  gemma,
  deepseek2,
  ernie
};

// A field that GGUF has unchanged, with its default in transformers if it is not that of GGUF.
struct plain_field {
  std::string_view field;
  std::string_view key;
  std::optional<double> otherwise = {};
};

// Properties that config.json leaves to transformers' class of that name.
struct checkpoint_family {
  std::string_view architecture; // as in config.json
  std::string_view family;       // as in family.cpp
  window_rule window = window_rule::never;
  expert_rule experts = expert_rule::none;
  bool ties_embeddings = false; // the default
  bool adds_one_to_norms = false;
  bool takes_partial_rotation = false;
  double rotated_part = 1.0; // the default
  double rope_base = 1e4;    // the default
  bool rotates_pairs = false;
  bool takes_no_window = false; // a model without one is of the family, too
  norm_names norms = norm_names::before;
  moe_names ffn = moe_names::mlp; // the names of a dense model
  std::span<const plain_field> fields = {};
  bool normalises_experts = false; // the default
  // The class of a larger model whose text is of this one: it has "text_config", and other names.
  std::string_view larger = {};
  bool has_states = false; // a class with another row is of this one with recurrent layers
};

// Reads one config.json into one checkpoint_config.
class config_reader {
public:
  config_reader(const json& config, const checkpoint_family& published, const family& kind)
      : config_(config), published_(published), kind_(kind) {}
  // Whether a kind of `layer_types` is recurrent.
  static bool is_recurrent(const json& kind) {
    return kind == "linear_attention" || kind == "mamba" || kind == "conv";
  }

  result<checkpoint_config> read();

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
  result<void> read_granite_hybrid();
  result<void> read_recurrence();
  result<void> read_recurrent_layers();
  void read_heads_of_states();
  void read_adjusted_ffn();
  result<void> check_activation();
  result<void> read_experts();
  result<void> read_shared_experts();
  result<void> check_last_mixture();
  result<void> read_groups();
  result<void> read_latent();
  result<void> read_dense_layers();
  result<void> read_window();
  result<void> read_layer_types();
  result<void> read_layer_sizes();
  void read_widths_of_layers(std::size_t layers);
  result<void> read_rotated_layers();
  result<void> check_query_scale();
  result<void> read_rope();
  result<void> read_quantization();
  result<void> read_scaling(const json& rope, const std::string& type);
  result<void> take_llama3_factors(const json& rope, double base);
  result<void> take_yarn(const json& rope);
  result<void> take_dynamic(const json& rope, double base);
  result<void> take_longrope(const json& rope);
  void take_proportional(const json& rope);
  result<void> put_factors(const json& rope, std::string_view field, std::string tensor);
  // The context before scaling: config.json's own field wins, as in transformers.
  const json* original_context(const json& rope) const;
  void put_number(std::string_view key, double value, std::string field);
  // A count; describe() refuses 0 and below by the field.
  void put_count(std::string_view key, double value, std::string field) {
    const json count = static_cast<std::uint64_t>(std::clamp(value, 0.0, 1e9));
    put(key, &count, std::move(field));
  }
  result<void> read_rotated_part(const json& rope);

  const json& config_;
  const checkpoint_family& published_;
  const family& kind_;
  bool has_window_ = false;
  double full_head_size_ = 0; // of layers without a window, if those of the others differ
  checkpoint_config out_;
};

} // namespace baton::model
