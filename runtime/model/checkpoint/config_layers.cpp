// The layers of config.json: experts, windows, rotated layers, the scale of queries.
#include "runtime/model/checkpoint/config_reader.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace baton::model {

// Newer versions of transformers write the number of experts under the same name for both classes,
// and read either name.
result<void> config_reader::read_experts() {
  if (published_.experts == expert_rule::none) {
    return {};
  }
  if (published_.experts == expert_rule::gemma && !flag_of(config_, "enable_moe_block", false)) {
    return {};
  }
  const bool is_gemma = published_.experts == expert_rule::gemma;
  const bool is_of_glm =
      published_.experts == expert_rule::glm || published_.experts == expert_rule::deepseek2;
  const bool is_ernie = published_.experts == expert_rule::ernie;
  const bool has_own_width = published_.experts == expert_rule::qwen3 || is_of_glm || is_ernie ||
                             published_.experts == expert_rule::lfm2;
  std::string_view count = "num_experts", other = "num_local_experts";
  if (is_of_glm) {
    count = "n_routed_experts";
    const auto layers = number("num_hidden_layers");
    constexpr double layers_max = 1e6; // beyond, describe() refuses the number
    if (layers && *layers >= 0.0 && *layers < layers_max) {
      out_.names.layer_count = static_cast<std::uint64_t>(*layers);
    }
  } else if (is_ernie) {
    count = "moe_num_experts";
    if (auto r = check_last_mixture(); !r) {
      return r;
    }
  } else if (published_.experts != expert_rule::qwen3 && published_.experts != expert_rule::lfm2 &&
             !is_gemma) {
    out_.names.experts = published_.experts == expert_rule::mixtral   ? moe_names::mixtral
                         : published_.experts == expert_rule::gpt_oss ? moe_names::gpt_oss
                                                                      : moe_names::granite;
    std::swap(count, other);
  }
  if (member_of(config_, count) == nullptr && member_of(config_, other) != nullptr) {
    count = other;
  }
  std::vector<plain_field> sizes = {{count, "expert_count"},
                                    {is_gemma   ? "top_k_experts"
                                     : is_ernie ? "moe_k"
                                                : "num_experts_per_tok",
                                     "expert_used_count"}};
  if (is_gemma) {
    sizes.push_back({"moe_intermediate_size", "expert_feed_forward_length"});
  }
  if (published_.experts == expert_rule::gpt_oss) {
    constexpr double clamp = 7.0; // of every engine's activation
    if (number("swiglu_limit").value_or(clamp) != clamp) {
      return unsupported("swiglu_limit", fmt::format("{}", clamp));
    }
    sizes.push_back({"intermediate_size", "expert_feed_forward_length"});
  }
  if (has_own_width) {
    sizes.push_back({"moe_intermediate_size", "expert_feed_forward_length"});
    constexpr std::string_view norm = "norm_topk_prob";
    const json standard = published_.experts == expert_rule::glm || published_.normalises_experts;
    // The class of DeepSeek V2 ignores the field.
    const auto* value =
        published_.experts == expert_rule::deepseek2 ? nullptr : member_of(config_, norm);
    put("expert_weights_norm", value != nullptr ? value : &standard, std::string(norm));
  }
  for (const auto& [field, key, otherwise] : sizes) {
    const auto* value = member_of(config_, field);
    if (value == nullptr) {
      return fail(errc::bad_model_file, "config.json: '{}' is missing", field);
    }
    put(key, value, std::string(field));
  }
  return read_shared_experts();
}

// Ernie's mixtures may end before the last layer; -1 is the last one.
result<void> config_reader::check_last_mixture() {
  constexpr std::string_view field = "moe_layer_end_index";
  const auto end = number(field).value_or(-1.0), layers = number("num_hidden_layers").value_or(0.0);
  return end == -1.0 || end == layers - 1.0 ? result<void>() : unsupported(field, "the last layer");
}

result<void> config_reader::read_shared_experts() {
  if (!kind_.takes_shared_experts) {
    return {};
  }
  for (const auto* field : {"shared_expert_intermediate_size", "shared_intermediate_size"}) {
    put("expert_shared_feed_forward_length", member_of(config_, field), field);
  }
  return {};
}

// Routers of one family differ by the class: sigmoids, or a softmax whose groups are a method.
result<void> config_reader::read_groups() {
  if (!kind_.takes_expert_groups) {
    return {};
  }
  if (published_.experts != expert_rule::deepseek2) {
    const json sigmoid = 2U; // as in GGUF
    put("expert_gating_func", &sigmoid, "architectures");
    return {};
  }
  constexpr std::string_view field = "topk_method";
  const auto method = text_of(config_, field, "greedy");
  if (method == "group_limited_greedy") {
    put("expert_group_count", member_of(config_, "n_group"), "n_group");
    put("expert_group_used_count", member_of(config_, "topk_group"), "topk_group");
    return {};
  }
  return method == "greedy" ? result<void>() : unsupported(field, "greedy, group_limited_greedy");
}

result<void> config_reader::read_window() {
  constexpr std::string_view field = "sliding_window";
  if (published_.window == window_rule::with_flag &&
      flag_of(config_, "use_sliding_window", false)) {
    return unsupported("use_sliding_window", "false");
  }
  const auto* size = member_of(config_, field);
  if (published_.window != window_rule::with_size || size == nullptr) {
    if (published_.window == window_rule::with_size && kind_.full_attention_period != 0 &&
        !published_.takes_no_window) {
      return unsupported(field, "a number of positions");
    }
    return {};
  }
  has_window_ = true;
  put("attention.sliding_window", size, std::string(field));
  return {};
}

// `layer_types` says which layers have a window; older files have a period. Otherwise the family
// does.
result<void> config_reader::read_layer_types() {
  constexpr std::string_view field = "layer_types", key = "attention.sliding_window_pattern";
  const auto* list = member_of(config_, field);
  if (kind_.recurrent != mixer_kind::attention) {
    return {}; // read_recurrent_layers()
  }
  if (list == nullptr) {
    for (const auto* period : {"sliding_window_pattern", "_sliding_window_pattern"}) {
      if (const auto* n = member_of(config_, period); n != nullptr && has_window_) {
        put(key, n, period);
      }
    }
    return {};
  }
  if (!list->is_array()) {
    return unsupported(field, "a list");
  }
  json windowed = json::array();
  for (std::size_t layer = 0; layer < list->size(); ++layer) {
    const auto& kind = (*list)[layer];
    const bool is_windowed = kind == "sliding_attention";
    const bool is_full = kind == "full_attention" || kind == "attention"; // Granite 4
    if ((is_windowed && !has_window_) || (!is_windowed && !is_full)) {
      return fail(errc::unsupported_model,
                  "config.json: '{}' is {} for layer {}: this build runs full_attention{} there",
                  field, shown(kind), layer, has_window_ ? " and sliding_attention" : "");
    }
    windowed.push_back(is_windowed);
  }
  if (has_window_) {
    put(key, &windowed, std::string(field));
  }
  return {};
}

result<void> config_reader::read_recurrence() {
  if (kind_.recurrent == mixer_kind::attention) {
    return {};
  }
  struct wanted_flag {
    const char* field;
    bool value;
  };
  for (const auto& [field, value] :
       {wanted_flag{"attn_output_gate", true}, wanted_flag{"mamba_conv_bias", true},
        wanted_flag{"mamba_proj_bias", false}, wanted_flag{"conv_bias", false},
        wanted_flag{"use_expert_bias", true}}) {
    if (flag_of(config_, field, value) != value) {
      return unsupported(field, value ? "true" : "false");
    }
  }
  if (kind_.recurrent == mixer_kind::short_convolution) {
    read_adjusted_ffn();
  } else {
    read_heads_of_states();
  }
  return read_recurrent_layers();
}

// Published weights have heads in the order of key heads, and logarithms of decays.
void config_reader::read_heads_of_states() {
  const json is_published = true;
  put("ssm.has_grouped_heads", &is_published, "architectures");
  if (kind_.recurrent == mixer_kind::mamba2) {
    return put_count("ssm.inner_size",
                     number("mamba_expand").value_or(2) * number("hidden_size").value_or(0),
                     "mamba_expand");
  }
  put_count("ssm.inner_size",
            number("linear_num_value_heads").value_or(32) *
                number("linear_value_head_dim").value_or(128),
            "linear_value_head_dim");
}

// LFM2's ffn has two thirds of the size, times a factor, in whole multiples.
void config_reader::read_adjusted_ffn() {
  const auto given = number("block_ff_dim") ? number("block_ff_dim") : number("intermediate_size");
  if (published_.experts != expert_rule::none || !given || !(*given > 0.0 && *given < 1e9) ||
      !flag_of(config_, "block_auto_adjust_ff_dim", true)) {
    return;
  }
  auto size = std::floor(2.0 * *given / 3.0);
  const auto* factor = member_of(config_, "block_ffn_dim_multiplier");
  const json standard = 1.0;
  if (const auto times = number(factor != nullptr ? factor : &standard)) {
    const auto multiple = number("block_multiple_of").value_or(256);
    size = std::floor(*times * size);
    if (multiple >= 1.0) {
      size = multiple * std::ceil(size / multiple);
    }
  }
  put_count("feed_forward_length", size, "block_ff_dim");
}

// `layer_types` says which layers are recurrent; older files of LFM2 list the others. Otherwise
// the family has a period.
result<void> config_reader::read_recurrent_layers() {
  const auto layers = number("num_hidden_layers").value_or(0);
  constexpr double layers_max = 1e4; // beyond, describe() refuses the number
  if (!(layers >= 0.0 && layers < layers_max)) {
    return {};
  }
  json recurrent = json::array();
  const auto* types = member_of(config_, "layer_types");
  const auto* full = member_of(config_, "full_attn_idxs");
  if (types != nullptr && types->is_array()) {
    for (std::size_t i = 0; i < types->size(); ++i) {
      const auto& kind = (*types)[i];
      if (!is_recurrent(kind) && kind != "full_attention" && kind != "attention") {
        return fail(errc::unsupported_model, "config.json: 'layer_types' is {} for layer {}",
                    shown(kind), i);
      }
      recurrent.push_back(is_recurrent(kind));
    }
  } else if (kind_.has_recurrent_period) {
    put("full_attention_interval", member_of(config_, "full_attention_interval"),
        "full_attention_interval");
    return {};
  } else {
    for (std::size_t i = 0; i < static_cast<std::size_t>(layers); ++i) {
      recurrent.push_back(full != nullptr && full->is_array() &&
                          std::ranges::find(*full, json(i)) == full->end());
    }
  }
  if (kind_.has_recurrent_period) {
    put("full_attention_interval", &recurrent, "layer_types");
    return {};
  }
  const auto heads = number("num_key_value_heads").value_or(0);
  json counts = json::array();
  for (const auto& lacks_heads : recurrent) {
    counts.push_back(lacks_heads.get<bool>() ? 0U : static_cast<std::uint32_t>(heads));
  }
  put("attention.head_count_kv", &counts, "layer_types");
  return {};
}

// Layers without a rotary embedding: a list (0: the layer has none), a period, or the family's.
result<void> config_reader::read_rotated_layers() {
  if (kind_.unrotated_period == 0) {
    return {};
  }
  for (const auto* field : {"no_rope_layer_interval", "no_rope_layers"}) {
    put("rope.layer_pattern", member_of(config_, field), field);
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

} // namespace baton::model
