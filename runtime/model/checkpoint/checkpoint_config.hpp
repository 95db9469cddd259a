// config.json of a Hugging Face checkpoint in GGUF's terms: its family (family.cpp), and the
// metadata that describe() reads. Used only by checkpoint.cpp.
//
// Fields that transformers' class of the family ignores are ignored here too. Fields that it reads
// but this build does not support are refused by name.
#pragma once

#include "runtime/model/checkpoint/formats/quantised_format.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace baton::model {

// Properties that resolve ambiguity: one published name with two meanings, or two of one tensor.
enum class norm_names : std::uint8_t {
  before,  // attention and ffn
  both,    // before and after, or only after
  glm,     // both, by GLM's names
  as_post, // before, where GGUF names the ffn's as if it came after attention
};
// granite_dense: an ffn by the names of Granite's shared experts.
enum class moe_names : std::uint8_t { mlp, mixtral, granite, granite_dense, lfm2, gpt_oss, gemma };
struct name_rules {
  norm_names norms = norm_names::before;
  moe_names experts = moe_names::mlp;
  std::optional<std::uint64_t> layer_count = {}; // later layers are left out
  bool is_nested = false;                        // "model.language_model." in place of "model."
};

struct checkpoint_config {
  std::string architecture; // of family.cpp
  name_rules names;
  // Gemma's norms multiply by 1 + weight, whereas GGUF stores the sum.
  bool adds_one_to_norms = false;
  bool has_attention_bias = false; // of q, k and v
  bool rotates_halves = true;      // of heads; otherwise pairs
  bool has_tied_embeddings = false;
  format_pointer quantised; // null: no matrix is quantised
  // Tensors that are fields of config.json: rope factors, one per pair.
  std::map<std::string, std::vector<float>, std::less<>> made;
  std::map<std::string, json, std::less<>> values;        // by GGUF's key
  std::map<std::string, std::string, std::less<>> fields; // GGUF's key -> the field
};

// Errors: unsupported_model, bad_model_file (both name the field).
result<checkpoint_config> read_checkpoint_config(const json& config);

// "blk.3.attn_q.weight" for "model.layers.3.self_attn.q_proj.weight"; other names stay the same. A
// tensor of one expert has a GGUF name only through its pattern.
std::string gguf_tensor_name(std::string_view published, const name_rules& rules);
// The inverse. If two published names exist, returns that of a family without fused projections.
// For the tensors of all experts, returns the pattern.
std::string published_tensor_name(std::string_view name, const name_rules& rules);

// A published tensor whose rows are those of gate and then of up, of each expert if there are some;
// with GGUF's names of both. Interleaved, they alternate, and so do the biases of each expert.
struct joint_names {
  std::string gate, up;
  bool is_interleaved = false;
  bool is_of_biases = false;
};
std::optional<joint_names> joint_names_of(std::string_view published, const name_rules& rules);

// Whether a tensor of floats has its inputs before its outputs.
bool is_transposed(std::string_view published, const name_rules& rules);

// "model.layers.3.mlp.experts.*.up_proj.weight" and 7 for the name with 7 instead of the star.
struct expert_name {
  std::string pattern;
  std::uint64_t expert = 0;
};
// Whether a name has the form "...experts.<rest>", with or without a number.
bool is_of_experts(std::string_view published) noexcept;
// nullopt for names without an expert's number.
std::optional<expert_name> expert_name_of(std::string_view published);
std::string published_name_of(const expert_name& name);

} // namespace baton::model
