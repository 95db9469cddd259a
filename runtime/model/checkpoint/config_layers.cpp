// The layers of config.json: experts, windows, rotated layers, the scale of queries.
#include "runtime/model/checkpoint/config_reader.hpp"

#include <vector>

namespace baton::model {

// Newer versions of transformers write the number of experts under the same name for both classes,
// and read either name.
result<void> config_reader::read_experts() {
  if (published_.experts == expert_rule::none) {
    return {};
  }
  const bool has_own_width =
      published_.experts == expert_rule::qwen3 || published_.experts == expert_rule::glm;
  std::string_view count = "num_experts", other = "num_local_experts";
  if (published_.experts == expert_rule::glm) {
    count = "n_routed_experts";
    const auto layers = number("num_hidden_layers");
    constexpr double layers_max = 1e6; // beyond, describe() refuses the number
    if (layers && *layers >= 0.0 && *layers < layers_max) {
      out_.names.layer_count = static_cast<std::uint64_t>(*layers);
    }
  } else if (published_.experts != expert_rule::qwen3) {
    out_.names.experts =
        published_.experts == expert_rule::mixtral ? moe_names::mixtral : moe_names::granite;
    std::swap(count, other);
  }
  if (member_of(config_, count) == nullptr && member_of(config_, other) != nullptr) {
    count = other;
  }
  std::vector<plain_field> sizes = {{count, "expert_count"},
                                    {"num_experts_per_tok", "expert_used_count"}};
  if (has_own_width) {
    sizes.push_back({"moe_intermediate_size", "expert_feed_forward_length"});
    constexpr std::string_view norm = "norm_topk_prob";
    const json standard = published_.experts == expert_rule::glm;
    const auto* value = member_of(config_, norm);
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

result<void> config_reader::read_shared_experts() {
  if (!kind_.takes_shared_experts) {
    return {};
  }
  for (const auto* field : {"shared_expert_intermediate_size", "shared_intermediate_size"}) {
    put("expert_shared_feed_forward_length", member_of(config_, field), field);
  }
  if (published_.experts == expert_rule::glm) {
    const json one = 1;
    const auto* count = member_of(config_, "n_shared_experts");
    put("expert_shared_count", count != nullptr ? count : &one, "n_shared_experts");
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
