// Maps the tensor names of transformers' decoders to GGUF's.
#include "runtime/model/checkpoint/checkpoint_config.hpp"

#include <array>
#include <charconv>
#include <optional>

namespace baton::model {
namespace {

// The rules that a row applies to.
struct scope {
  std::optional<norm_names> norms = {};
  std::optional<moe_names> experts = {};
};
struct name_row {
  std::string_view published;
  std::string_view gguf;
  scope where = {};
};
constexpr scope norms_before{norm_names::before, {}}, norms_both{norm_names::both, {}},
    norms_of_glm{norm_names::glm, {}}, norms_as_post{norm_names::as_post, {}},
    moe_of_mlp{{}, moe_names::mlp}, moe_of_mixtral{{}, moe_names::mixtral},
    moe_of_granite{{}, moe_names::granite}, dense_granite{{}, moe_names::granite_dense},
    ffn_of_lfm2{{}, moe_names::lfm2}, moe_of_gpt_oss{{}, moe_names::gpt_oss},
    moe_of_gemma{{}, moe_names::gemma};

bool applies(const name_row& row, const name_rules& rules) {
  return row.where.norms.value_or(rules.norms) == rules.norms &&
         row.where.experts.value_or(rules.experts) == rules.experts;
}

constexpr std::array whole_names = {
    name_row{"lm_head.weight", "output.weight"},
    name_row{"model.embed_tokens.weight", "token_embd.weight"},
    name_row{"model.embed_tokens_per_layer.weight", "per_layer_token_embd.weight"},
    name_row{"model.embedding_norm.weight", "token_embd_norm.weight"},
    name_row{"model.norm.weight", "output_norm.weight"},
    name_row{"model.per_layer_model_projection.weight", "per_layer_model_proj.weight"},
    name_row{"model.per_layer_projection_norm.weight", "per_layer_proj_norm.weight"},
};
// A star represents the number of an expert; the experts' rows are consecutive.
constexpr std::array layer_names = {
    name_row{"block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias", moe_of_mixtral},
    name_row{"block_sparse_moe.experts.*.w1.weight", "ffn_gate_exps.weight", moe_of_mixtral},
    name_row{"block_sparse_moe.experts.*.w2.weight", "ffn_down_exps.weight", moe_of_mixtral},
    name_row{"block_sparse_moe.experts.*.w3.weight", "ffn_up_exps.weight", moe_of_mixtral},
    name_row{"block_sparse_moe.gate.weight", "ffn_gate_inp.weight", moe_of_mixtral},
    name_row{"block_sparse_moe.output_linear.weight", "ffn_down_exps.weight", moe_of_granite},
    name_row{"block_sparse_moe.router.layer.weight", "ffn_gate_inp.weight", moe_of_granite},
    name_row{"conv.conv.weight", "shortconv.conv.weight"},
    name_row{"conv.in_proj.weight", "shortconv.in_proj.weight"},
    name_row{"conv.out_proj.weight", "shortconv.out_proj.weight"},
    name_row{"experts.down_proj", "ffn_down_exps.weight", moe_of_gemma},
    name_row{"experts.gate_up_proj", "ffn_gate_up_exps.weight", moe_of_gemma},
    name_row{"feed_forward.expert_bias", "exp_probs_b.bias", ffn_of_lfm2},
    name_row{"feed_forward.experts.*.w1.weight", "ffn_gate_exps.weight", ffn_of_lfm2},
    name_row{"feed_forward.experts.*.w2.weight", "ffn_down_exps.weight", ffn_of_lfm2},
    name_row{"feed_forward.experts.*.w3.weight", "ffn_up_exps.weight", ffn_of_lfm2},
    name_row{"feed_forward.experts.down_proj", "ffn_down_exps.weight", ffn_of_lfm2},
    name_row{"feed_forward.gate.weight", "ffn_gate_inp.weight", ffn_of_lfm2},
    name_row{"feed_forward.w1.weight", "ffn_gate.weight", ffn_of_lfm2},
    name_row{"feed_forward.w2.weight", "ffn_down.weight", ffn_of_lfm2},
    name_row{"feed_forward.w3.weight", "ffn_up.weight", ffn_of_lfm2},
    name_row{"ffn_norm.weight", "ffn_norm.weight", ffn_of_lfm2},
    name_row{"input_layernorm.weight", "attn_norm.weight"},
    name_row{"layer_scalar", "layer_output_scale.weight"},
    name_row{"linear_attn.A_log", "ssm_a"},
    name_row{"linear_attn.conv1d.weight", "ssm_conv1d.weight"},
    name_row{"linear_attn.dt_bias", "ssm_dt.bias"},
    name_row{"linear_attn.in_proj_a.weight", "ssm_alpha.weight"},
    name_row{"linear_attn.in_proj_b.weight", "ssm_beta.weight"},
    name_row{"linear_attn.in_proj_ba.weight", "ssm_ba.weight"},
    name_row{"linear_attn.in_proj_qkv.weight", "attn_qkv.weight"},
    name_row{"linear_attn.in_proj_z.weight", "attn_gate.weight"},
    name_row{"linear_attn.norm.weight", "ssm_norm.weight"},
    name_row{"linear_attn.out_proj.weight", "ssm_out.weight"},
    name_row{"mamba.A_log", "ssm_a"},
    name_row{"mamba.D", "ssm_d"},
    name_row{"mamba.conv1d.bias", "ssm_conv1d.bias"},
    name_row{"mamba.conv1d.weight", "ssm_conv1d.weight"},
    name_row{"mamba.dt_bias", "ssm_dt.bias"},
    name_row{"mamba.in_proj.weight", "ssm_in.weight"},
    name_row{"linear_attn.in_proj_qkvz.weight", "ssm_in.weight"},
    name_row{"mamba.norm.weight", "ssm_norm.weight"},
    name_row{"mamba.out_proj.weight", "ssm_out.weight"},
    name_row{"mlp.down_proj.weight", "ffn_down.weight"},
    name_row{"mlp.experts.*.down_proj.weight", "ffn_down_exps.weight", moe_of_mlp},
    name_row{"mlp.experts.down_proj", "ffn_down_exps.weight", moe_of_mlp},
    name_row{"mlp.experts.down_proj", "ffn_down_exps.weight", moe_of_gpt_oss},
    name_row{"mlp.experts.down_proj_bias", "ffn_down_exps.bias", moe_of_gpt_oss},
    name_row{"mlp.experts.*.gate_proj.weight", "ffn_gate_exps.weight", moe_of_mlp},
    name_row{"mlp.experts.*.up_proj.weight", "ffn_up_exps.weight", moe_of_mlp},
    name_row{"mlp.gate.e_score_correction_bias", "exp_probs_b.bias"},
    name_row{"mlp.gate.weight", "ffn_gate_inp.weight", moe_of_mlp},
    name_row{"mlp.gate_proj.weight", "ffn_gate.weight"},
    name_row{"mlp.moe_statics.e_score_correction_bias", "exp_probs_b.bias"},
    name_row{"mlp.router.bias", "ffn_gate_inp.bias", moe_of_gpt_oss},
    name_row{"mlp.router.weight", "ffn_gate_inp.weight", moe_of_gpt_oss},
    name_row{"mlp.shared_expert.down_proj.weight", "ffn_down_shexp.weight"},
    name_row{"mlp.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight"},
    name_row{"mlp.shared_expert.up_proj.weight", "ffn_up_shexp.weight"},
    name_row{"mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight"},
    name_row{"mlp.shared_experts.down_proj.weight", "ffn_down_shexp.weight"},
    name_row{"mlp.shared_experts.gate_proj.weight", "ffn_gate_shexp.weight"},
    name_row{"mlp.shared_experts.up_proj.weight", "ffn_up_shexp.weight"},
    name_row{"mlp.up_proj.weight", "ffn_up.weight"},
    name_row{"mlp.gate_up_proj.weight", "ffn_up.weight"},
    name_row{"operator_norm.weight", "attn_norm.weight", ffn_of_lfm2},
    name_row{"per_layer_input_gate.weight", "inp_gate.weight"},
    name_row{"per_layer_projection.weight", "proj.weight"},
    name_row{"post_attention_layernorm.weight", "ffn_norm.weight", norms_before},
    name_row{"post_attention_layernorm.weight", "ffn_norm.weight", norms_of_glm},
    name_row{"post_attention_layernorm.weight", "post_attention_norm.weight", norms_as_post},
    name_row{"post_attention_layernorm.weight", "post_attention_norm.weight", norms_both},
    name_row{"post_feedforward_layernorm.weight", "post_ffw_norm.weight", norms_both},
    name_row{"post_feedforward_layernorm_1.weight", "post_ffw_norm_1.weight"},
    name_row{"post_feedforward_layernorm_2.weight", "post_ffw_norm_2.weight"},
    name_row{"post_mlp_layernorm.weight", "post_ffw_norm.weight", norms_of_glm},
    name_row{"post_per_layer_input_norm.weight", "post_norm.weight"},
    name_row{"post_self_attn_layernorm.weight", "post_attention_norm.weight", norms_of_glm},
    name_row{"pre_feedforward_layernorm.weight", "ffn_norm.weight", norms_both},
    name_row{"pre_feedforward_layernorm_2.weight", "pre_ffw_norm_2.weight"},
    name_row{"router.per_expert_scale", "ffn_down_exps.scale"},
    name_row{"router.proj.weight", "ffn_gate_inp.weight", moe_of_gemma},
    name_row{"router.scale", "ffn_gate_inp.scale"},
    name_row{"self_attn.k_layernorm.weight", "attn_k_norm.weight", ffn_of_lfm2},
    name_row{"self_attn.k_norm.weight", "attn_k_norm.weight"},
    name_row{"self_attn.k_proj.bias", "attn_k.bias"},
    name_row{"self_attn.k_proj.weight", "attn_k.weight"},
    name_row{"self_attn.kv_a_layernorm.weight", "attn_kv_a_norm.weight"},
    name_row{"self_attn.kv_a_proj_with_mqa.weight", "attn_kv_a_mqa.weight"},
    name_row{"self_attn.kv_b_proj.weight", "attn_kv_b.weight"},
    name_row{"self_attn.key_layernorm.weight", "attn_k_norm.weight"},
    name_row{"self_attn.o_proj.bias", "attn_output.bias", moe_of_gpt_oss},
    name_row{"self_attn.o_proj.weight", "attn_output.weight"},
    name_row{"self_attn.out_proj.weight", "attn_output.weight", ffn_of_lfm2},
    name_row{"self_attn.q_a_layernorm.weight", "attn_q_a_norm.weight"},
    name_row{"self_attn.q_a_proj.weight", "attn_q_a.weight"},
    name_row{"self_attn.q_b_proj.weight", "attn_q_b.weight"},
    name_row{"self_attn.q_layernorm.weight", "attn_q_norm.weight", ffn_of_lfm2},
    name_row{"self_attn.q_norm.weight", "attn_q_norm.weight"},
    name_row{"self_attn.q_proj.bias", "attn_q.bias"},
    name_row{"self_attn.q_proj.weight", "attn_q.weight"},
    name_row{"self_attn.qkv_proj.weight", "attn_qkv.weight"},
    name_row{"self_attn.query_layernorm.weight", "attn_q_norm.weight"},
    name_row{"self_attn.sinks", "attn_sinks.weight", moe_of_gpt_oss},
    name_row{"self_attn.v_proj.bias", "attn_v.bias"},
    name_row{"self_attn.v_proj.weight", "attn_v.weight"},
    name_row{"shared_mlp.output_linear.weight", "ffn_down.weight", dense_granite},
    name_row{"shared_mlp.output_linear.weight", "ffn_down_shexp.weight", moe_of_granite},
};

struct joint_row {
  std::string_view published, gate, up;
  moe_names experts;
  bool is_interleaved = false;
};
constexpr std::array joint_rows = {
    joint_row{"block_sparse_moe.input_linear.weight", "ffn_gate_exps.weight", "ffn_up_exps.weight",
              moe_names::granite},
    joint_row{"feed_forward.experts.gate_up_proj", "ffn_gate_exps.weight", "ffn_up_exps.weight",
              moe_names::lfm2},
    joint_row{"mlp.experts.gate_up_proj", "ffn_gate_exps.weight", "ffn_up_exps.weight",
              moe_names::mlp},
    joint_row{"mlp.experts.gate_up_proj", "ffn_gate_exps.weight", "ffn_up_exps.weight",
              moe_names::gpt_oss, true},
    joint_row{"mlp.experts.gate_up_proj_bias", "ffn_gate_exps.bias", "ffn_up_exps.bias",
              moe_names::gpt_oss, true},
    joint_row{"shared_mlp.input_linear.weight", "ffn_gate.weight", "ffn_up.weight",
              moe_names::granite_dense},
    joint_row{"shared_mlp.input_linear.weight", "ffn_gate_shexp.weight", "ffn_up_shexp.weight",
              moe_names::granite},
};

// One of a tensor's two names, with the prefix of the layer number.
struct naming {
  std::string_view name_row::*name;
  std::string_view layer_prefix;
};
constexpr naming published_names{&name_row::published, "model.layers."};
constexpr naming gguf_names{&name_row::gguf, "blk."};

constexpr std::string_view experts_part = ".experts.";

// A name that is in no table is returned unchanged.
std::string renamed(std::string_view name, const naming& from, const naming& to,
                    const name_rules& rules) {
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
    if (row.*from.name == name.substr(dot + 1) && applies(row, rules)) {
      return fmt::format("{}{}.{}", to.layer_prefix, layer, row.*to.name);
    }
  }
  return std::string(name);
}

// A text model within a larger one has the names that it has alone, behind a longer prefix.
constexpr std::string_view alone = "model.", nested = "model.language_model.";

std::string without_nesting(std::string_view published, const name_rules& rules) {
  return rules.is_nested && published.starts_with(nested)
             ? fmt::format("{}{}", alone, published.substr(nested.size()))
             : std::string(published);
}

} // namespace

std::string gguf_tensor_name(std::string_view published, const name_rules& rules) {
  return renamed(without_nesting(published, rules), published_names, gguf_names, rules);
}

std::string published_tensor_name(std::string_view name, const name_rules& rules) {
  auto published = renamed(name, gguf_names, published_names, rules);
  if (rules.is_nested && published.starts_with(alone)) {
    published = fmt::format("{}{}", nested, published.substr(alone.size()));
  }
  return published;
}

std::optional<joint_names> joint_names_of(std::string_view name, const name_rules& rules) {
  const auto plain = without_nesting(name, rules);
  const std::string_view published = plain;
  const auto prefix = published_names.layer_prefix;
  const auto dot =
      published.starts_with(prefix) ? published.find('.', prefix.size()) : std::string_view::npos;
  if (dot == std::string_view::npos) {
    return std::nullopt;
  }
  const auto layer = published.substr(prefix.size(), dot - prefix.size());
  for (const auto& row : joint_rows) {
    if (row.published == published.substr(dot + 1) && row.experts == rules.experts) {
      return joint_names{fmt::format("{}{}.{}", gguf_names.layer_prefix, layer, row.gate),
                         fmt::format("{}{}.{}", gguf_names.layer_prefix, layer, row.up),
                         row.is_interleaved, row.gate.ends_with(".bias")};
    }
  }
  return std::nullopt;
}

bool is_transposed(std::string_view published, const name_rules& rules) {
  return rules.experts == moe_names::gpt_oss && (published.ends_with(".experts.gate_up_proj") ||
                                                 published.ends_with(".experts.down_proj"));
}

bool is_of_experts(std::string_view published) noexcept {
  return published.find(experts_part) != std::string_view::npos;
}

std::optional<expert_name> expert_name_of(std::string_view published) {
  const auto part = published.find(experts_part);
  if (part == std::string_view::npos) {
    return std::nullopt;
  }
  const auto begin = part + experts_part.size(), end = published.find('.', begin);
  if (end == std::string_view::npos) {
    return std::nullopt;
  }
  const auto digits = published.substr(begin, end - begin);
  expert_name found;
  const auto [rest, problem] =
      std::from_chars(digits.data(), digits.data() + digits.size(), found.expert);
  if (problem != std::errc() || rest != digits.data() + digits.size()) {
    return std::nullopt;
  }
  found.pattern = fmt::format("{}*{}", published.substr(0, begin), published.substr(end));
  return found;
}

std::string published_name_of(const expert_name& name) {
  const auto star = name.pattern.find('*');
  return fmt::format("{}{}{}", name.pattern.substr(0, star), name.expert,
                     name.pattern.substr(star + 1));
}

} // namespace baton::model
