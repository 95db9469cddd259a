// config.json of a Hugging Face checkpoint in GGUF's terms: which family of family.cpp it is, and
// the metadata that describe() reads. Called by checkpoint.cpp alone.
//
// What transformers' class of a family does not read from config.json, it ignores, and so is it
// here. What it does read and this build does not compute is refused by its name.
#pragma once

#include "runtime/model/gptq.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace baton::model {

// What decides where one published name has two meanings, or one tensor two names.
struct name_rules {
  bool has_post_norms = false;
  bool has_block_sparse_moe = false; // Mixtral's layers in place of mlp
};

struct checkpoint_config {
  std::string architecture; // of family.cpp
  name_rules names;
  // Gemma's: a norm multiplies by 1 + weight, where GGUF has the sum.
  bool adds_one_to_norms = false;
  bool has_attention_bias = false; // of q, k and v
  bool has_tied_embeddings = false;
  std::optional<gptq_config> gptq;                        // of matrices that are quantised
  std::vector<float> rope_factors;                        // Llama 3.1's, one a pair; empty: none
  std::map<std::string, json, std::less<>> values;        // by GGUF's key
  std::map<std::string, std::string, std::less<>> fields; // GGUF's key -> the field
};

// Errors: unsupported_model, bad_model_file (both name the field).
result<checkpoint_config> read_checkpoint_config(const json& config);

// "blk.3.attn_q.weight" for "model.layers.3.self_attn.q_proj.weight"; other names stay as they are.
// A tensor of one expert has a name here by its pattern alone.
std::string gguf_tensor_name(std::string_view published, const name_rules& rules);
// The other way round. Of two published names the one of a family without fused projections, of the
// tensors of all experts the pattern.
std::string published_tensor_name(std::string_view name, const name_rules& rules);

// "model.layers.3.mlp.experts.*.up_proj.weight" and 7 for the name with 7 in place of the star.
struct expert_name {
  std::string pattern;
  std::uint64_t expert = 0;
};
// Whether a name has the form "...experts.<rest>", with or without a number.
bool is_of_experts(std::string_view published) noexcept;
// Nothing for names without a number of an expert.
std::optional<expert_name> expert_name_of(std::string_view published);
std::string published_name_of(const expert_name& name);

} // namespace baton::model
