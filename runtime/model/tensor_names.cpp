// The tensors that a description asks for, by the names of the GGUF specification.
#include "runtime/model/description.hpp"

namespace baton::model {

std::string layer_tensor_name(std::uint32_t layer, std::string_view role) {
  return fmt::format("blk.{}.{}", layer, role);
}

std::vector<tensor_requirement> layer_tensors(const description& d, std::uint32_t layer) {
  const std::uint64_t hidden = d.hidden_size;
  const std::uint64_t q = d.q_size();
  const std::uint64_t kv = d.kv_size();
  const std::uint64_t ffn = d.ffn_size;
  std::vector<tensor_requirement> list = {
      {"attn_norm.weight", {hidden}},      {"attn_q.weight", {hidden, q}},
      {"attn_k.weight", {hidden, kv}},     {"attn_v.weight", {hidden, kv}},
      {"attn_output.weight", {q, hidden}}, {"ffn_norm.weight", {hidden}},
      {"ffn_gate.weight", {hidden, ffn}},  {"ffn_up.weight", {hidden, ffn}},
      {"ffn_down.weight", {ffn, hidden}},
  };
  if (d.has_attention_bias) {
    list.push_back({"attn_q.bias", {q}});
    list.push_back({"attn_k.bias", {kv}});
    list.push_back({"attn_v.bias", {kv}});
  }
  if (d.has_qk_norm) {
    list.push_back({"attn_q_norm.weight", {d.head_size}});
    list.push_back({"attn_k_norm.weight", {d.head_size}});
  }
  for (auto& tensor : list) {
    tensor.name = layer_tensor_name(layer, tensor.name);
  }
  return list;
}

std::vector<tensor_requirement> input_tensors(const description& d) {
  return {{"token_embd.weight", {d.hidden_size, d.vocab_size}}};
}

std::vector<tensor_requirement> output_tensors(const description& d) {
  const auto* head = d.has_tied_embeddings ? "token_embd.weight" : "output.weight";
  return {{"output_norm.weight", {d.hidden_size}}, {head, {d.hidden_size, d.vocab_size}}};
}

} // namespace baton::model
