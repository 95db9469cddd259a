// The tensor names of transformers' decoders, in GGUF's terms.
#include "runtime/model/checkpoint_config.hpp"

#include <array>

namespace baton::model {
namespace {

// In families with norms behind attention and ffn, one name means another norm.
enum class norm_set : std::uint8_t { any, before, both };
struct name_row {
  std::string_view published;
  std::string_view gguf;
  norm_set where = norm_set::any;
};

bool applies(const name_row& row, bool has_post_norms) {
  return row.where == norm_set::any || (row.where == norm_set::both) == has_post_norms;
}

constexpr std::array whole_names = {
    name_row{"lm_head.weight", "output.weight"},
    name_row{"model.embed_tokens.weight", "token_embd.weight"},
    name_row{"model.norm.weight", "output_norm.weight"},
};
constexpr std::array layer_names = {
    name_row{"input_layernorm.weight", "attn_norm.weight"},
    name_row{"mlp.down_proj.weight", "ffn_down.weight"},
    name_row{"mlp.gate_proj.weight", "ffn_gate.weight"},
    name_row{"mlp.up_proj.weight", "ffn_up.weight"},
    name_row{"mlp.gate_up_proj.weight", "ffn_up.weight"},
    name_row{"post_attention_layernorm.weight", "ffn_norm.weight", norm_set::before},
    name_row{"post_attention_layernorm.weight", "post_attention_norm.weight", norm_set::both},
    name_row{"post_feedforward_layernorm.weight", "post_ffw_norm.weight", norm_set::both},
    name_row{"pre_feedforward_layernorm.weight", "ffn_norm.weight", norm_set::both},
    name_row{"self_attn.k_norm.weight", "attn_k_norm.weight"},
    name_row{"self_attn.k_proj.bias", "attn_k.bias"},
    name_row{"self_attn.k_proj.weight", "attn_k.weight"},
    name_row{"self_attn.o_proj.weight", "attn_output.weight"},
    name_row{"self_attn.q_norm.weight", "attn_q_norm.weight"},
    name_row{"self_attn.q_proj.bias", "attn_q.bias"},
    name_row{"self_attn.q_proj.weight", "attn_q.weight"},
    name_row{"self_attn.qkv_proj.weight", "attn_qkv.weight"},
    name_row{"self_attn.v_proj.bias", "attn_v.bias"},
    name_row{"self_attn.v_proj.weight", "attn_v.weight"},
};

// One of the two names that a tensor has, with what stands before the number of a layer.
struct naming {
  std::string_view name_row::*name;
  std::string_view layer_prefix;
};
constexpr naming published_names{&name_row::published, "model.layers."};
constexpr naming gguf_names{&name_row::gguf, "blk."};

// A name that is in no table stays as it is.
std::string renamed(std::string_view name, const naming& from, const naming& to,
                    bool has_post_norms) {
  for (const auto& row : whole_names) {
    if (row.*from.name == name) {
      return std::string(row.*to.name);
    }
  }
  const auto dot = name.starts_with(from.layer_prefix) ? name.find('.', from.layer_prefix.size())
                                                       : std::string_view::npos;
  if (dot == std::string_view::npos) {
    return std::string(name);
  }
  const auto layer = name.substr(from.layer_prefix.size(), dot - from.layer_prefix.size());
  for (const auto& row : layer_names) {
    if (row.*from.name == name.substr(dot + 1) && applies(row, has_post_norms)) {
      return fmt::format("{}{}.{}", to.layer_prefix, layer, row.*to.name);
    }
  }
  return std::string(name);
}

} // namespace

std::string gguf_tensor_name(std::string_view published, bool has_post_norms) {
  return renamed(published, published_names, gguf_names, has_post_norms);
}

std::string published_tensor_name(std::string_view name, bool has_post_norms) {
  return renamed(name, gguf_names, published_names, has_post_norms);
}

} // namespace baton::model
