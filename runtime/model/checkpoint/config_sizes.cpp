// Sizes that config.json has for some layers alone.
#include "runtime/model/checkpoint/config_reader.hpp"

#include <optional>

namespace baton::model {

// Layers without a window have heads of their own: by two fields, or newer files by a list of the
// layers. The last one has no window.
result<void> config_reader::read_layer_sizes() {
  if (!kind_.takes_windowed_sizes) {
    return {};
  }
  const auto* types = member_of(config_, "layer_types");
  const auto layers = number("num_hidden_layers").value_or(0);
  if (types == nullptr || !types->is_array() || types->empty() ||
      static_cast<double>(types->size()) != layers || types->back() != "full_attention") {
    return unsupported("layer_types", "a list of all layers whose last one has full_attention");
  }
  const auto* of_layers = member_of(config_, "per_layer_config");
  if (of_layers != nullptr && !of_layers->is_object()) {
    return unsupported("per_layer_config", "an object");
  }
  const bool keys_are_values = flag_of(config_, "attention_k_eq_v", false);
  const json stated = keys_are_values;
  put("attention.keys_as_values", &stated, "attention_k_eq_v");
  const double usual_size = number("head_dim").value_or(256);
  const double usual_count = number("num_key_value_heads").value_or(4);
  std::optional<double> windowed_size, full_size;
  json counts = json::array();
  for (std::size_t i = 0; i < types->size(); ++i) {
    const bool is_windowed = (*types)[i] == "sliding_attention";
    double size = usual_size, count = usual_count;
    if (of_layers == nullptr && !is_windowed) {
      size = number("global_head_dim").value_or(512);
      count = keys_are_values ? number("num_global_key_value_heads").value_or(count) : count;
    }
    const auto* own = of_layers != nullptr ? member_of(*of_layers, std::to_string(i)) : nullptr;
    const json fields = own != nullptr ? *own : json::object();
    for (const auto& [field, value] : fields.items()) {
      if (!value.is_number() || (field != "head_dim" && field != "num_key_value_heads")) {
        return unsupported("per_layer_config", "head_dim and num_key_value_heads there");
      }
      (field == "head_dim" ? size : count) = value.get<double>();
    }
    auto& of_kind = is_windowed ? windowed_size : full_size;
    if (of_kind.value_or(size) != size) {
      return unsupported("per_layer_config", "one head_dim for layers of the same kind");
    }
    of_kind = size;
    counts.push_back(static_cast<std::uint32_t>(std::clamp(count, 0.0, 1e9)));
  }
  full_head_size_ = *full_size;
  put_count("attention.key_length", *full_size, "global_head_dim");
  put_count("attention.key_length_swa", windowed_size.value_or(*full_size), "head_dim");
  put("attention.head_count_kv", &counts, "num_key_value_heads");
  read_widths_of_layers(types->size());
  return {};
}

// The ffn of layers that read the keys of earlier ones may have twice the width.
void config_reader::read_widths_of_layers(std::size_t layers) {
  if (!flag_of(config_, "use_double_wide_mlp", false)) {
    return;
  }
  const auto shared = number("num_kv_shared_layers").value_or(0);
  const auto width = std::clamp(number("intermediate_size").value_or(0), 0.0, 1e9);
  json widths = json::array();
  for (std::size_t i = 0; i < layers; ++i) {
    const bool is_shared = static_cast<double>(i) + shared >= static_cast<double>(layers);
    widths.push_back(static_cast<std::uint32_t>(is_shared ? 2 * width : width));
  }
  put("feed_forward_length", &widths, "intermediate_size");
}

} // namespace baton::model
