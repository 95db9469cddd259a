// Latent attention in config.json.
#include "runtime/model/checkpoint/config_reader.hpp"

#include <algorithm>
#include <iterator>

namespace baton::model {

// GGUF has the sizes of the latents' KV head; describe() finds them by those of the heads.
result<void> config_reader::read_latent() {
  if (!kind_.has_latent_attention) {
    return {};
  }
  for (const auto* field : {"kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"}) {
    if (!number(field)) {
      return fail(errc::bad_model_file, "config.json: '{}' is missing", field);
    }
  }
  put("attention.kv_lora_rank", member_of(config_, "kv_lora_rank"), "kv_lora_rank");
  put("attention.q_lora_rank", member_of(config_, "q_lora_rank"), "q_lora_rank");
  put("attention.value_length_mla", member_of(config_, "v_head_dim"), "v_head_dim");
  put("rope.dimension_count", member_of(config_, "qk_rope_head_dim"), "qk_rope_head_dim");
  put_count("attention.key_length_mla", *number("qk_nope_head_dim") + *number("qk_rope_head_dim"),
            "qk_nope_head_dim");
  put_count("attention.head_count_kv", 1.0, "num_key_value_heads");
  out_.rotates_halves = !flag_of(config_, "rope_interleave", true);
  return read_dense_layers();
}

// Newer classes list the kinds of layers. Dense ones come first.
result<void> config_reader::read_dense_layers() {
  constexpr std::string_view field = "mlp_layer_types";
  const auto* list = member_of(config_, field);
  if (list == nullptr) {
    return {};
  }
  const auto is_dense = [](const json& kind) { return kind == "dense"; };
  const auto is_sparse = [](const json& kind) { return kind == "sparse"; };
  if (!list->is_array()) {
    return unsupported(field, "a list");
  }
  const auto first_sparse = std::ranges::find_if_not(*list, is_dense);
  if (!std::all_of(first_sparse, list->end(), is_sparse)) {
    return unsupported(field, "dense layers and then sparse ones");
  }
  put_count("leading_dense_block_count",
            static_cast<double>(std::distance(list->begin(), first_sparse)), std::string(field));
  return {};
}

} // namespace baton::model
