// The tensors that a description requires, by the names of the GGUF specification.
#include "runtime/model/description.hpp"

namespace baton::model {

std::string layer_tensor_name(std::uint32_t layer, std::string_view role) {
  return fmt::format("blk.{}.{}", layer, role);
}

namespace {

std::vector<tensor_requirement> expert_tensors(const description& d) {
  const std::uint64_t hidden = d.hidden_size, width = d.expert_ffn_size, count = d.expert_count;
  std::vector<tensor_requirement> list = {{"ffn_gate_inp.weight", {hidden, count}}}; // the router
  if (d.has_fused_experts) {
    list.push_back({"ffn_gate_up_exps.weight", {hidden, 2 * width, count}});
  } else {
    list.push_back({"ffn_gate_exps.weight", {hidden, width, count}});
    list.push_back({"ffn_up_exps.weight", {hidden, width, count}});
  }
  list.push_back({"ffn_down_exps.weight", {width, hidden, count}});
  if (d.has_ffn_beside_experts) {
    list.push_back({"ffn_gate_inp.scale", {hidden}});
    list.push_back({"ffn_down_exps.scale", {count}});
    list.push_back({"pre_ffw_norm_2.weight", {hidden}});
    list.push_back({"post_ffw_norm_1.weight", {hidden}});
    list.push_back({"post_ffw_norm_2.weight", {hidden}});
  }
  if (d.has_router_bias) {
    list.push_back({"ffn_gate_inp.bias", {count}});
  }
  if (d.has_choice_bias) {
    list.push_back({"exp_probs_b.bias", {count}, true});
  }
  if (d.has_expert_bias) {
    list.push_back({"ffn_gate_exps.bias", {width, count}});
    list.push_back({"ffn_up_exps.bias", {width, count}});
    list.push_back({"ffn_down_exps.bias", {hidden, count}});
  }
  if (d.shared_ffn_size > 0) {
    const std::uint64_t shared = d.shared_ffn_size;
    list.push_back({"ffn_gate_shexp.weight", {hidden, shared}});
    list.push_back({"ffn_up_shexp.weight", {hidden, shared}});
    list.push_back({"ffn_down_shexp.weight", {shared, hidden}});
  }
  if (d.has_shared_gate) {
    list.push_back({"ffn_gate_inp_shexp.weight", {hidden}});
  }
  return list;
}

// The tensors of the ffn, or of the experts that replace it or are beside it.
std::vector<tensor_requirement> ffn_tensors(const description& d, std::uint32_t layer) {
  const std::uint64_t hidden = d.hidden_size, ffn = d.ffn_size_of(layer);
  std::vector<tensor_requirement> list;
  if (d.layers.at(layer).is_mixture) {
    list = expert_tensors(d);
    if (!d.has_ffn_beside_experts) {
      return list;
    }
  }
  if (d.has_fused_ffn) {
    list.push_back({"ffn_up.weight", {hidden, 2 * ffn}});
  } else {
    list.push_back({"ffn_gate.weight", {hidden, ffn}});
    list.push_back({"ffn_up.weight", {hidden, ffn}});
  }
  list.push_back({"ffn_down.weight", {ffn, hidden}});
  return list;
}

std::vector<tensor_requirement> attention_tensors(const description& d, std::uint32_t layer) {
  const std::uint64_t hidden = d.hidden_size, q = d.q_size(layer), kv = d.kv_size(layer);
  const std::uint64_t size = d.heads_of(layer).size;
  const bool has_own_kv = d.has_own_kv(layer);
  std::vector<tensor_requirement> list;
  const auto add = [&](const std::vector<tensor_requirement>& more) {
    list.insert(list.end(), more.begin(), more.end());
  };
  if (d.has_fused_qkv) {
    add({{"attn_qkv.weight", {hidden, q + 2 * kv}}});
  } else {
    add({{"attn_q.weight", {hidden, d.has_attention_gate ? 2 * q : q}}});
    if (has_own_kv) {
      add({{"attn_k.weight", {hidden, kv}}});
    }
    if (has_own_kv && !d.layers.at(layer).has_keys_as_values) {
      add({{"attn_v.weight", {hidden, kv}}});
    }
  }
  add({{"attn_output.weight", {q, hidden}}});
  if (d.has_attention_bias) {
    add({{"attn_q.bias", {q}}, {"attn_k.bias", {kv}}, {"attn_v.bias", {kv}}});
  }
  if (d.has_attention_out_bias) {
    add({{"attn_output.bias", {hidden}}});
  }
  if (d.has_sinks) {
    add({{"attn_sinks.weight", {d.head_count}}});
  }
  if (d.qk_norm == qk_norm_kind::rows) {
    add({{"attn_q_norm.weight", {q}}, {"attn_k_norm.weight", {kv}}});
  } else if (d.qk_norm != qk_norm_kind::none) {
    add({{"attn_q_norm.weight", {size}}});
    if (has_own_kv) {
      add({{"attn_k_norm.weight", {size}}});
    }
  }
  return list;
}

std::vector<tensor_requirement> latent_tensors(const description& d) {
  const auto& l = *d.latent;
  const std::uint64_t hidden = d.hidden_size, heads = d.head_count;
  const std::uint64_t queries = heads * l.query_size();
  std::vector<tensor_requirement> list = {
      {"attn_kv_a_mqa.weight", {hidden, l.kv_rank + l.rotated_size}},
      {"attn_kv_a_norm.weight", {l.kv_rank}},
      {"attn_output.weight", {heads * l.value_size, hidden}}};
  if (l.has_joint_weights) {
    list.push_back({"attn_kv_b.weight", {l.kv_rank, heads * (l.plain_size + l.value_size)}});
  } else {
    list.push_back({"attn_k_b.weight", {l.plain_size, l.kv_rank, heads}});
    list.push_back({"attn_v_b.weight", {l.kv_rank, l.value_size, heads}});
  }
  if (l.query_rank > 0) {
    list.push_back({"attn_q_a.weight", {hidden, l.query_rank}});
    list.push_back({"attn_q_a_norm.weight", {l.query_rank}});
    list.push_back({"attn_q_b.weight", {l.query_rank, queries}});
  } else {
    list.push_back({"attn_q.weight", {hidden, queries}});
  }
  return list;
}

std::vector<tensor_requirement> delta_net_tensors(const description& d) {
  const auto& r = *d.recurrence;
  const std::uint64_t hidden = d.hidden_size, heads = r.value_head_count;
  const std::uint64_t channels = r.channels, values = r.values_size();
  std::vector<tensor_requirement> list = {{"ssm_conv1d.weight", {r.convolution_rows, channels}},
                                          {"ssm_a", {heads}},
                                          {"ssm_dt.bias", {heads}},
                                          {"ssm_norm.weight", {r.value_size}},
                                          {"ssm_out.weight", {values, hidden}}};
  if (r.has_joint_projection) {
    list.push_back({"ssm_in.weight", {hidden, channels + values}});
  } else {
    list.push_back({"attn_qkv.weight", {hidden, channels}});
    list.push_back({"attn_gate.weight", {hidden, values}});
  }
  if (r.has_joint_weights) {
    list.push_back({"ssm_ba.weight", {hidden, 2 * heads}});
  } else {
    list.push_back({"ssm_beta.weight", {hidden, heads}});
    list.push_back({"ssm_alpha.weight", {hidden, heads}});
  }
  return list;
}

std::vector<tensor_requirement> mamba2_tensors(const description& d) {
  const auto& r = *d.recurrence;
  const std::uint64_t hidden = d.hidden_size, heads = r.value_head_count, values = r.values_size();
  return {{"ssm_in.weight", {hidden, values + r.channels + heads}},
          {"ssm_conv1d.weight", {r.convolution_rows, r.channels}},
          {"ssm_conv1d.bias", {r.channels}},
          {"ssm_a", {heads}, true},
          {"ssm_d", {heads}, true},
          {"ssm_dt.bias", {heads}},
          {"ssm_norm.weight", {values}, true},
          {"ssm_out.weight", {values, hidden}}};
}

std::vector<tensor_requirement> mixer_tensors(const description& d, std::uint32_t layer) {
  const std::uint64_t hidden = d.hidden_size;
  switch (d.layers.at(layer).mixer) {
  case mixer_kind::attention:
    return d.latent ? latent_tensors(d) : attention_tensors(d, layer);
  case mixer_kind::delta_net:
    return delta_net_tensors(d);
  case mixer_kind::mamba2:
    return mamba2_tensors(d);
  case mixer_kind::short_convolution:
    return {{"shortconv.in_proj.weight", {hidden, 3 * hidden}},
            {"shortconv.conv.weight", {d.recurrence->convolution_rows, hidden}},
            {"shortconv.out_proj.weight", {hidden, hidden}}};
  }
  return {};
}

} // namespace

std::vector<tensor_requirement> layer_tensors(const description& d, std::uint32_t layer) {
  const std::uint64_t hidden = d.hidden_size;
  std::vector<tensor_requirement> list;
  const auto add = [&](const std::vector<tensor_requirement>& more) {
    list.insert(list.end(), more.begin(), more.end());
  };
  if (d.has_pre_norms) {
    add({{"attn_norm.weight", {hidden}}});
  }
  add(mixer_tensors(d, layer));
  if (d.has_pre_norms && !d.has_parallel_ffn) {
    add({{d.ffn_norm_tensor, {hidden}}});
  }
  add(ffn_tensors(d, layer));
  if (d.has_post_norms) {
    add({{"post_attention_norm.weight", {hidden}}, {"post_ffw_norm.weight", {hidden}}});
  }
  if (d.layer_input_size > 0) {
    const std::uint64_t inputs = d.layer_input_size;
    add({{"inp_gate.weight", {hidden, inputs}},
         {"proj.weight", {inputs, hidden}},
         {"post_norm.weight", {hidden}}});
  }
  if (d.has_layer_scales) {
    add({{"layer_output_scale.weight", {1}}});
  }
  for (auto& tensor : list) {
    tensor.name = layer_tensor_name(layer, tensor.name);
  }
  return list;
}

std::vector<tensor_requirement> shared_tensors(const description& d) {
  for (const auto& rope : d.ropes) {
    const std::uint64_t pairs = rope.dimension_count / 2;
    if (rope.scaling == rope_scaling_kind::longrope) {
      return {{"rope_factors_long.weight", {pairs}}, {"rope_factors_short.weight", {pairs}}};
    }
    if (rope.has_factors) {
      return {{"rope_freqs.weight", {pairs}}};
    }
  }
  return {};
}

std::vector<tensor_requirement> input_tensors(const description& d) {
  std::vector<tensor_requirement> list = {{"token_embd.weight", {d.hidden_size, d.vocab_size}}};
  if (d.layer_input_size > 0) {
    const std::uint64_t inputs = std::uint64_t{d.layer_input_size} * d.layer_count;
    list.push_back({"per_layer_token_embd.weight", {inputs, d.vocab_size}});
    list.push_back({"per_layer_model_proj.weight", {d.hidden_size, inputs}});
    list.push_back({"per_layer_proj_norm.weight", {d.layer_input_size}});
  }
  return list;
}

std::vector<tensor_requirement> output_tensors(const description& d) {
  const auto* head = d.has_tied_embeddings ? "token_embd.weight" : "output.weight";
  return {{d.output_norm_tensor, {d.hidden_size}}, {head, {d.hidden_size, d.vocab_size}}};
}

} // namespace baton::model
