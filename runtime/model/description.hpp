// A decoder-only transformer as data: everything that an engine needs to run it, read from a file's
// metadata and checked against its tensors. A new family is a row in family.cpp plus a golden test,
// not a class. A feature without an implementation is never ignored: it is refused by its key.
#pragma once

#include "runtime/model/model_file.hpp"

#include <map>

namespace baton::model {

enum class norm_kind : std::uint8_t { rms, layer }; // layer: of the deviations from the mean
// gelu in its tanh form. clamped_silu: min(gate, 7) * sigmoid(1.702 gate) * (clamp(up, -7, 7) + 1).
enum class activation_kind : std::uint8_t { silu, gelu, clamped_silu };
// Norms of queries and keys: of each head before or after its rotation, or of all heads together.
enum class qk_norm_kind : std::uint8_t { none, heads, rotated_heads, rows };
enum class router_kind : std::uint8_t { softmax, sigmoid };
// How a layer mixes positions. All but attention are recurrent: gated delta nets (arXiv
// 2412.06464), Mamba-2 (arXiv 2405.21060), and short convolutions with gates (LFM2).
enum class mixer_kind : std::uint8_t { attention, delta_net, mamba2, short_convolution };
// `normal` rotates the pairs (x[2i], x[2i+1]); the GGUF converter permutes q and k of llama files
// accordingly. `neox` rotates (x[i], x[i + dimensions/2]), as all published weights require.
enum class rope_kind : std::uint8_t { normal, neox };
// yarn: arXiv 2309.00071. longrope (arXiv 2402.13753): each pair has a factor of its own, for
// contexts up to the original size or for longer ones.
enum class rope_scaling_kind : std::uint8_t { none, linear, yarn, longrope };

struct rope_description {
  rope_kind kind = rope_kind::normal;
  std::uint32_t dimension_count = 0; // the first dimensions of a head; the rest stay unrotated
  float base = 10000.0F;             // theta_i = position * base^(-2i / dimension_count)
  rope_scaling_kind scaling = rope_scaling_kind::none;
  float scaling_factor = 1.0F;
  std::uint32_t original_context_size = 0; // before scaling; of yarn and longrope
  float magnitude = 1.0F;                  // a factor of the rotated dimensions
  // Yarn's pairs that turn at least as often in the original context keep their frequency. Pairs
  // that turn at most `slow_turns` times have the scaled one, and a ramp lies between.
  float fast_turns = 32.0F, slow_turns = 1.0F;
  bool has_whole_borders = true; // the ramp begins and ends at whole pairs
  bool has_factors = false; // rope_freqs.weight divides each pair's theta (Llama 3.1 and later)
};

// The heads of a layer's keys and values. Its queries' heads have the same size.
struct layer_heads {
  std::uint32_t kv_count = 0, size = 0;
  friend bool operator==(const layer_heads&, const layer_heads&) = default;
};

// The properties of one layer. Everything else is the same in all layers.
struct layer_description {
  mixer_kind mixer = mixer_kind::attention;
  std::uint32_t window = 0;          // positions that it sees, its own last; 0: all
  std::optional<std::uint32_t> rope; // index into description::ropes; none: not rotated
  bool is_mixture = false;           // experts in place of the ffn
  bool grows_queries = false;        // by description::query_growth
  // Sizes that differ from those of the description; 0: they do not.
  std::uint32_t head_size = 0, kv_head_count = 0, ffn_size = 0;
  bool has_keys_as_values = false;            // its values are its keys before norm and rotation
  std::optional<std::uint32_t> kv_layer = {}; // an earlier layer, whose keys and values it reads

  friend bool operator==(const layer_description&, const layer_description&) = default;
};

// Queries grow with their position p: times 1 + weight * ln(1 + floor((p + offset) / length)).
struct growth {
  float weight = 0.0F, offset = 0.0F;
  std::uint32_t length = 1;

  friend bool operator==(const growth&, const growth&) = default;
};

// The recurrent layers of a model, which are of one kind. A layer projects a row to channels and
// convolves each channel with the rows before. Channels are queries, keys and values of heads. Each
// value head has a state [key_size, value_size]: it decays, takes up a key with a value, and
// answers the query. Mamba-2 calls them C, B and x, and key heads groups. A short convolution has
// no heads.
struct recurrence_description {
  mixer_kind kind = mixer_kind::delta_net;
  std::uint32_t channels = 0, output_size = 0;
  std::uint32_t convolution_rows = 0; // that the convolution reads, its own last
  std::uint32_t key_head_count = 0;   // of queries and keys; divides value_head_count
  std::uint32_t value_head_count = 0;
  std::uint32_t key_size = 0, value_size = 0; // of a head
  std::uint32_t norm_size = 0;                // of the parts of the output that are normalised
  // Value head v has the queries and keys of head v % key_head_count; otherwise the value heads of
  // a key head are consecutive.
  bool alternates_key_heads = false;
  bool has_joint_weights = false; // ssm_ba.weight has the rows of ssm_beta and ssm_alpha
  // ssm_in.weight has the rows of attn_qkv and attn_gate, those of each key head together: its
  // query, its key, and the values and gates of its value heads.
  bool has_joint_projection = false;
  bool has_log_decay = false; // ssm_a is ln(-decay)

  std::uint32_t keys_size() const noexcept { return key_head_count * key_size; }
  std::uint32_t values_size() const noexcept { return value_head_count * value_size; }
  // A layer's state in float32: the convolution's earlier rows, then the heads.
  std::uint64_t state_bytes() const noexcept {
    return sizeof(float) * (std::uint64_t{convolution_rows - 1} * channels +
                            std::uint64_t{values_size()} * key_size);
  }
};

// Latent attention (MLA, arXiv 2405.04434, section 2.1). A projection of a row, its latent, stands
// for the keys and values of all heads. The KV memory holds it in their place: one KV head, whose
// keys are the rotated dimensions and then the latent, and whose values are the latent. Each head
// projects its query onto latents, and its attended latent to its output.
struct latent_description {
  std::uint32_t query_rank = 0; // of the latent that queries come from; 0: they come from the row
  std::uint32_t kv_rank = 0;    // of the latent
  std::uint32_t plain_size = 0, rotated_size = 0; // of a head's query: both parts
  std::uint32_t value_size = 0;                   // of a head's output
  // attn_kv_b has the rows of each head's keys and then of its values, as published. Otherwise
  // attn_k_b has the columns of the former as rows, and attn_v_b the latter.
  bool has_joint_weights = false;

  std::uint32_t query_size() const noexcept { return plain_size + rotated_size; }
  friend bool operator==(const latent_description&, const latent_description&) = default;
};

// Granularity of a matrix's slices for several ranks, besides head borders. A slice of columns is a
// whole number of its type's blocks. It is also a whole number of the 32 values that share a scale
// in quantised activations.
struct slice_blocks {
  std::uint32_t attention = 32; // columns of the attention's output
  std::uint32_t ffn = 32;       // columns of down
};

struct description {
  std::string architecture; // general.architecture: "llama"
  std::string name;         // general.name, or the file's name
  std::string file_type;    // "Q4_1", from general.file_type; "unknown" if absent

  std::uint32_t layer_count = 0;
  std::uint32_t hidden_size = 0;
  std::uint32_t ffn_size = 0;
  std::uint32_t head_count = 0;
  std::uint32_t kv_head_count = 0; // divides head_count
  std::uint32_t head_size = 0;
  std::uint32_t vocab_size = 0;
  std::uint32_t context_length = 0; // in training

  norm_kind norm = norm_kind::rms;
  float rms_epsilon = 1e-5F;
  std::vector<layer_description> layers;              // [layer_count]
  std::vector<rope_description> ropes;                // of the layers
  activation_kind activation = activation_kind::silu; // of the gate: act(gate) * up
  qk_norm_kind qk_norm = qk_norm_kind::none;
  bool has_attention_bias = false;     // of q, k and v
  bool has_attention_out_bias = false; // of the output
  bool has_value_norm = false;         // of the values of each head, without a gain
  bool has_sinks = false;              // a score for each head that takes its share of the softmax
  bool has_attention_gate = false;     // attn_q has the query and the output's gate of each head
  bool has_fused_qkv = false;          // attn_qkv is q, k, v
  bool has_fused_ffn = false;          // ffn_up is gate, up
  bool has_pre_norms = true;           // of the inputs of attention and ffn
  bool has_post_norms = false;         // of the outputs of attention and ffn, before they are added
  bool has_parallel_ffn = false;       // the ffn reads what attention reads
  bool has_layer_scales = false;       // the residual after a layer times layer_output_scale
  bool has_tied_embeddings = false;    // no output.weight: the head is token_embd.weight
  std::string ffn_norm_tensor = "ffn_norm.weight";
  std::string output_norm_tensor = "output_norm.weight";
  float embedding_scale = 1.0F;
  float attention_scale = 1.0F; // of the product of a query and a key
  float residual_scale = 1.0F;  // of the outputs of attention and ffn
  float logit_scale = 1.0F;
  growth query_growth;
  std::optional<recurrence_description> recurrence; // if there are recurrent layers
  std::optional<latent_description> latent;         // if attention is latent in all its layers
  std::optional<float> attention_soft_cap;
  std::optional<float> final_soft_cap;

  // For layers with a mixture of experts: every row passes through some experts instead of the ffn.
  // A softmax turns the router's scores into weights, over the used experts if the weights are
  // normalised (arXiv 2401.04088), else over all. Dividing by the sum of the chosen, as
  // modeling_mixtral.py of transformers does, is equivalent.
  std::uint32_t expert_count = 0; // 0: all layers are dense
  std::uint32_t expert_used_count = 0;
  std::uint32_t expert_ffn_size = 0;
  bool has_normalised_experts = false;
  router_kind router = router_kind::softmax;
  bool has_router_bias = false; // of the scores
  bool has_choice_bias = false; // added to the weights, only to choose
  bool has_expert_bias = false; // of gate, up and down
  float expert_scale = 1.0F;    // of the weights
  // Experts in consecutive groups. Only those of the best groups are chosen. A group's score is
  // that of its best expert, or with sigmoids the sum of its best two.
  std::uint32_t expert_group_count = 1, expert_group_used_count = 1;
  std::uint32_t shared_ffn_size = 0; // of an ffn beside the experts for every row; 0: none
  bool has_shared_gate = false;      // its output times the sigmoid of a score
  // Each mixture has the ffn of a dense layer too. Both, and the router, read the residual with
  // norms of their own. Both outputs have norms, too, before their sum has the layer's.
  bool has_ffn_beside_experts = false;
  bool has_fused_experts = false; // ffn_gate_up_exps has the gates and then the ups of each expert

  // Embeddings of each layer: a row of them per token, and a projection of the embedding. Their sum
  // gates a projection of the residual behind the layer's ffn. 0: none.
  std::uint32_t layer_input_size = 0;

  std::uint64_t parameter_count = 0;
  std::vector<std::uint64_t> layer_bytes; // weights of each layer as stored
  std::uint64_t expert_bytes = 0;         // all experts' share of layer_bytes
  std::uint64_t embedding_bytes = 0;      // token_embd.weight
  std::uint64_t head_bytes = 0;           // output.weight, or token_embd.weight if tied
  std::uint64_t output_norm_bytes = 0;
  std::map<tensor_type, std::uint64_t> type_bytes; // all weights as stored, by type
  slice_blocks cuts;                               // of its weights' types, the same for all layers

  bool is_mixed() const noexcept; // both ffns and mixtures
  // The layers among [first, end) with a state; the others have attention.
  std::uint32_t recurrent_layers(std::uint32_t first, std::uint32_t end) const noexcept;
  // The layers among [first, end) with keys and values of their own.
  std::uint32_t kv_layers(std::uint32_t first, std::uint32_t end) const noexcept;
  bool has_own_kv(std::uint32_t layer) const noexcept;
  // A sequence's state in these layers.
  std::uint64_t state_bytes(std::uint32_t first, std::uint32_t end) const noexcept;
  std::uint32_t q_size() const noexcept { return head_count * head_size; }
  std::uint32_t kv_size() const noexcept { return kv_head_count * head_size; }
  // The sizes of a layer, which may be its own.
  layer_heads heads_of(std::uint32_t layer) const noexcept;
  std::uint32_t ffn_size_of(std::uint32_t layer) const noexcept;
  std::uint32_t q_size(std::uint32_t layer) const noexcept {
    return head_count * heads_of(layer).size;
  }
  std::uint32_t kv_size(std::uint32_t layer) const noexcept {
    const auto heads = heads_of(layer);
    return heads.kv_count * heads.size;
  }
  // A head's columns in the input of a layer's attn_output.weight.
  std::uint32_t output_head_size(std::uint32_t layer) const noexcept {
    return latent ? latent->value_size : heads_of(layer).size;
  }
  // The heads of the layer with the widest keys; the widths of the widest queries and ffn.
  layer_heads largest_heads() const noexcept;
  std::uint32_t q_size_max() const noexcept;
  std::uint32_t ffn_size_max() const noexcept;
  // The feature that keeps all layers in one stage, or an empty text.
  std::string_view uncut_feature() const noexcept;
  // Whether layers differ in their sizes.
  bool has_uneven_layers() const noexcept;
  // Weights that a step of one row reads: without an embedding that is not also the head, and
  // without unused experts.
  std::uint64_t step_bytes() const noexcept;
};

// A tensor that a description requires, in GGUF shape order. For a list of values only the number
// of elements counts: GGUF files and directories have them in different shapes.
struct tensor_requirement {
  std::string name;
  std::vector<std::uint64_t> shape;
  bool is_list = false;
};

// "blk.3.attn_q.weight" for (3, "attn_q.weight").
std::string layer_tensor_name(std::uint32_t layer, std::string_view role);
// The tensors of one layer; of all layers together (rope_freqs.weight: read by every stage with a
// layer); of the input (token_embd.weight); of the output. The output's are its norm and
// the head: output.weight, or token_embd.weight if tied.
std::vector<tensor_requirement> layer_tensors(const description& model, std::uint32_t layer);
std::vector<tensor_requirement> shared_tensors(const description& model);
std::vector<tensor_requirement> input_tensors(const description& model);
std::vector<tensor_requirement> output_tensors(const description& model);

// Reads and checks the model. Every size is in range and consistent, and every tensor has its shape
// and a supported type. No other tensor or architecture key may change the arithmetic. Errors:
// bad_model_file (names the key or the tensor, expected and found), unsupported_model (names the
// unsupported architecture, key or tensor).
result<description> describe(const model_file& file);

// "llama, qwen2, ..": the architectures of the table.
std::string supported_architectures();

} // namespace baton::model
