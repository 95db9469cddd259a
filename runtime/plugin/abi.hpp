// The C ABI between a shard and an engine in a shared library: plain data and functions that use
// only the standard library. An engine for another accelerator needs this file and
// docs/develop/engines.md, and nothing else of this tree.
//
// The shard does the rest. It reads the model file, splits it by stage and rank, and converts the
// weights to 16 or 32 bits. It checks every batch and draws the tokens. All calls come from one
// thread at a time, except table::give_back. Memory passed to a call belongs to its caller; memory
// that a call returns belongs to the callee.
#pragma once

#include <cstddef>
#include <cstdint>

namespace baton::plugin {

// Incremented when the layout or meaning of anything below changes. Both sides must be built for
// the same number; of a library with another number only table::abi is read.
inline constexpr std::uint32_t abi_version = 8;

enum class status : std::int32_t {
  ok = 0,
  invalid_value = 1,     // a setting is out of range
  unsupported_model = 2, // the engine does not support a feature of the model
  does_not_fit = 3,      // not enough device or host memory
  io_failed = 4,         // weights or swap space could not be read or written
  no_device = 5,         // the device, its driver or a library is missing or has the wrong version
  group_failed = 6,      // a call to the other ranks failed; only a new epoch helps
  internal = 7,
  // This process cannot use the device any more (a kernel trapped, a hardware error): every later
  // call would fail too. The shard exits and its supervisor starts another one.
  device_lost = 8,
};

inline constexpr std::size_t message_bytes_max = 1024;

struct failure {
  char message[message_bytes_max] = {}; // UTF-8, terminated by 0
};

enum class element : std::uint32_t { f32 = 0, f16 = 1, bf16 = 2 };
// How an engine stores the matrices of the layers. Embedding, head, router, norms and biases are
// elements. `fp8`: e4m3 with a scale per output. `int4`: groups of settings::group weights along
// the inputs, each with a scale and a minimum. Activations and sums stay in settings::weights.
enum class quantization : std::uint32_t { none = 0, fp8 = 1, int4 = 2 };
// clamped_silu: min(gate, 7) * sigmoid(1.702 gate) * (clamp(up, -7, 7) + 1).
enum class activation : std::uint32_t { silu = 0, gelu_tanh = 1, clamped_silu = 2 };
// The numbers of a head that rotate together: x[2i], x[2i+1] or x[i], x[i + dimensions/2].
enum class rotation : std::uint32_t { pairs = 0, halves = 1 };
enum class norm_form : std::uint32_t { rms = 0, layer = 1 };
// Norms of queries and keys: of each head, or of all heads of a row before the rotation.
enum class head_norm : std::uint32_t { before_rotation = 0, behind_rotation = 1, whole_rows = 2 };
enum class router_form : std::uint32_t { softmax = 0, sigmoid = 1 };

struct layer {
  std::uint32_t window = 0;   // positions that a row attends to, including its own; 0: all
  std::uint32_t rotation = 0; // index into decoder::rotations
  bool is_rotated = true;
  bool grows_queries = false;
  bool is_mixture = false;
};

struct rotation_angles {
  const double* frequencies = nullptr; // [rotated_dimensions / 2], radians
  float magnitude = 1;                 // a factor of cosines and sines
};

// A stage's part of a decoder, as this rank computes it: its heads, its rows of the ffn and of the
// head. For every row of width hidden_size, with the weights of the enum below:
//   `h = embedding[token] * embedding_scale`, or the previous stage's output. In each layer:
//   `h += residual_scale * post_attention_norm(attention_out * attend(query, key, value of
//   attention_norm(h)))`
//   `h += residual_scale * post_ffn_norm(down * (act(gate * x) * (up * x)))`, x = ffn_norm(h).
//   `logits = soft_cap(logit_scale * head * output_norm(h))`, soft_cap(x) = cap * tanh(x / cap).
// `norm(x)` = x / sqrt(mean(x^2) + rms_epsilon) * weight, with norm_form::layer of x - mean(x).
// Without has_pre_norms x = h, and with has_parallel_ffn x = attention_norm(h). Queries and keys
// get their biases, then a norm per head, then the rotation by position * frequency. By head_norm
// the rotation comes first, or one norm is of all heads. Layers that grow queries
// multiply them by 1 + growth_weight * ln(1 + floor((position + growth_offset) / growth_length)).
// The product of a query and a key is scaled by attention_scale and capped. Softmax runs over the
// visible positions, and over the head's sink, a score without a value. A query head uses kv head
// (its index / (head_count / kv_head_count)).
struct decoder {
  std::uint32_t layer_count = 0;
  const layer* layers = nullptr; // [layer_count]
  std::uint32_t hidden_size = 0, ffn_size = 0;
  std::uint32_t head_count = 0, kv_head_count = 0, head_size = 0;
  std::uint32_t vocabulary_size = 0; // of the whole model: rows of the embedding
  std::uint32_t logit_count = 0;     // rows of the head on this rank; 0: none
  std::uint32_t first_logit = 0;     // index of the first of them in the whole head
  bool embeds = false;               // stage 0
  bool heads = false;                // last stage
  bool has_pre_norms = true, has_parallel_ffn = false;
  norm_form norms = norm_form::rms;
  head_norm head_norms = head_norm::before_rotation;
  float rms_epsilon = 0;
  activation act = activation::silu;
  rotation rotates = rotation::pairs;
  std::uint32_t rotated_dimensions = 0; // the leading dimensions of a head
  std::uint32_t rotation_count = 0;
  const rotation_angles* rotations = nullptr; // [rotation_count]
  float embedding_scale = 1, attention_scale = 1, residual_scale = 1, logit_scale = 1;
  float attention_soft_cap = 0, final_soft_cap = 0; // 0: none
  bool has_sinks = false;
  float growth_weight = 0, growth_offset = 0;
  std::uint32_t growth_length = 1;
  // A mixture of experts replaces the ffn in some layers: the expert_used_count experts with the
  // highest router scores, lower index first among equals. Softmax weighs them, over the chosen
  // experts if normalises_experts, else over all.
  std::uint32_t expert_count = 0, expert_used_count = 0, expert_ffn_size = 0;
  bool normalises_experts = false;
  // The sigmoids of the scores are the weights, divided by their sum if normalises_experts. Where
  // there is a choice_bias, the experts with the highest sums of weight and bias are chosen. All
  // weights are multiplied by expert_scale.
  router_form router = router_form::softmax;
  float expert_scale = 1;
  // Every row also passes an ffn beside the experts, whose output is multiplied by the sigmoid of
  // shared_score * x if there is such a weight. 0: none.
  std::uint32_t shared_ffn_size = 0;
};

// Matrices are row-major [outputs, inputs]; norms, biases and sinks have one row. The biases of
// gate, up and down are those of experts; only rank 0 has those of down, which ranks sum.
enum class weight : std::uint32_t {
  embedding = 0,
  output_norm,
  head,
  attention_norm,
  query,
  key,
  value,
  query_bias,
  key_bias,
  value_bias,
  query_norm,
  key_norm,
  attention_out,
  post_attention_norm,
  ffn_norm,
  gate,
  up,
  down,
  post_ffn_norm,
  router,
  choice_bias,
  shared_gate,
  shared_up,
  shared_down,
  shared_score,
  attention_out_bias,
  sinks,
  router_bias,
  gate_bias,
  up_bias,
  down_bias,
  count // not a weight
};

struct weight_name {
  weight which = weight::embedding;
  std::uint32_t layer = 0;  // index in this stage
  std::uint32_t expert = 0; // for gate, up and down of a mixture
};

struct extent {
  std::uint64_t rows = 0, columns = 0;
};

// Functions of the shard that an engine may call during create() and run().
struct host {
  void* context = nullptr;
  // Returns the extent of this rank's part; false: the model has no such weight.
  bool (*find)(void* context, weight_name name, extent* out) = nullptr;
  // Reads rows [first, first + count) as elements of the given type. Thread-safe.
  status (*read)(void* context, weight_name name, std::uint64_t first, std::uint64_t count,
                 element as, void* out, failure* why) = nullptr;
  // Writes one line to the log. Thread-safe.
  void (*log_line)(void* context, const char* text) = nullptr;
  // Null unless the stage has other ranks. See runtime/collective/collective.hpp; host memory.
  status (*all_reduce)(void* context, float* values, std::size_t count, failure* why) = nullptr;
  // For an engine that waits for other ranks by itself: ok while they are alive. Does not block.
  status (*look)(void* context, failure* why) = nullptr;
  // Gathers a row of logits. At rank 0 `all` receives the logits of all ranks in rank order, and
  // its own part may already be in place; at other ranks it is null.
  status (*gather)(void* context, const float* own, std::size_t count, float* all,
                   failure* why) = nullptr;
};

struct settings {
  const char* device = "";        // as in nodes.toml: "cuda:0"
  element weights = element::f32; // also the type of activations between layers; sums are wider
  element kv = element::f16;
  // An engine without the requested quantization returns invalid_value.
  quantization quantized = quantization::none;
  std::uint32_t group = 128; // for int4: 32 or 128
  bool is_eager = false;     // steps are not recorded for replay
  std::uint32_t threads = 1;
  std::uint32_t blocks = 0, block_positions = 0; // the KV cache
  std::uint32_t swap_blocks = 0;                 // additional KV blocks in host memory
  std::uint32_t rows_max = 0, max_model_len = 0;
  // Expected draws per step; up to rows_max are possible. create() should allocate memory for this
  // many, so that a lack of memory shows early.
  std::uint32_t draws_usual = 0;
  std::uint32_t rank = 0, width = 1;
  std::uint32_t ranks_on_device = 1; // how many of the `width` ranks share this device, with this
                                     // one; some collective libraries allow only one
};

// Consecutive rows of one sequence. The shard has checked the batch as runtime/engine/engine.hpp
// specifies.
struct slice {
  std::uint32_t position = 0, rows = 0;
  std::uint32_t draws = 0; // logits are needed for this many rows at the end
  const std::uint32_t* blocks = nullptr;
  std::uint32_t block_count = 0;
  bool is_pooled = false; // its rows are returned after the output norm, and it draws nothing
};

struct copy {
  std::uint32_t block = 0, swap_block = 0;
  bool is_out = false; // true: swap out; false: swap in
};

struct logit_bias {
  std::int32_t token = 0;
  float bias = 0;
};

struct token_count {
  std::int32_t token = 0;
  std::uint32_t in_prompt = 0, in_output = 0;
};

// How a row's token is drawn. The result must be the token that runtime/engine/sampler.hpp defines.
struct draw {
  std::uint32_t token_index = 0;
  std::uint32_t top_k = 0; // 0: off
  std::uint64_t seed = 0;
  float temperature = 1, top_p = 1, min_p = 0;
  float repetition_penalty = 1, presence_penalty = 0, frequency_penalty = 0;
  // Ranges in the batch's lists. No token occurs twice in the history.
  std::uint32_t first_bias = 0, bias_count = 0;
  std::uint32_t first_banned = 0, banned_count = 0;
  std::uint32_t first_history = 0, history_count = 0;
};

// Concatenated lists of all draws of a batch.
struct draw_lists {
  const draw* draws = nullptr; // [batch::draws]; null: return logits
  const logit_bias* biases = nullptr;
  const std::int32_t* banned = nullptr; // tokens that must not be drawn
  const token_count* history = nullptr;
  std::uint32_t bias_count = 0, banned_count = 0, history_count = 0;
};

// The row's token is the result of a draw of the batch begun last. If that draw fails, the token is
// arbitrary and the row's results are ignored.
struct feed {
  std::uint32_t row = 0, draw = 0;
};

struct batch {
  std::uint64_t number = 0, epoch = 0; // a new epoch resets the ranks
  const slice* slices = nullptr;
  std::uint32_t slice_count = 0;
  std::uint32_t rows = 0;
  std::uint32_t draws = 0;
  const std::int32_t* tokens = nullptr; // [rows]; negative for rows in `feeds`
  const float* activations = nullptr;   // [rows, hidden_size]; null into stage 0
  const copy* copies = nullptr;         // executed in this order, before the rows
  std::uint32_t copy_count = 0;
  draw_lists how; // on the last stage, if the batch needs only tokens
  // Only in a batch passed to begin(), on a stage that is both first and last. Requires: the
  // previous batch had `how`, and no draw of this batch depends on earlier tokens.
  const feed* feeds = nullptr;
  std::uint32_t feed_count = 0;
};

// Valid until the next call of run() or begin().
struct outcome {
  // [draws], from an engine that draws by itself when the batch has `how`; -1: all logits are
  // -infinity, or a logit is not a number. Null: the engine returns logits.
  const std::int32_t* tokens = nullptr;
  float* activations = nullptr; // [rows, hidden_size]; null on the last stage
  // True: valid until give_back, so that they are sent without a copy. False: valid until the next
  // run. Requires table::give_back.
  bool may_be_kept = false;
  float* logits =
      nullptr; // [draws, vocabulary_size] at rank 0 of the last stage; may be written to
  // [rows of the pooled slices, hidden_size], in order and after the output norm, at rank 0 of the
  // last stage.
  const float* states = nullptr;
};

struct facts {
  char device[128] = {}; // "cuda:0 NVIDIA H200, bf16": a description for people
  // Whether a row's bits are independent of the batch and the chunking. If not, the engine's
  // documentation states the tolerance.
  bool is_exact = false;
  bool gives_states = false; // fills outcome::states; otherwise no slice of a last stage is pooled
  std::uint32_t begun_max = 0; // batches that may be begun and not yet run
  // The collective library, if it is not the host's: "NCCL 2.28.9 (/usr/lib/libnccl.so.2)".
  char collective_library[512] = {};
};

// An engine instance of a library.
using engine_handle = void;

struct table {
  std::uint32_t abi = abi_version; // first in all versions
  const char* name = "";           // "torch"
  // Checks that the device and everything it needs are present. Loads no weights.
  status (*check)(const settings* with, facts* out, failure* why) = nullptr;
  status (*create)(const decoder* what, const settings* with, const host* shard,
                   engine_handle** out, failure* why) = nullptr;
  // Copies blocks, then runs the rows: reads KV only in the blocks that the slices name, writes
  // only at the rows' positions. A failure leaves only those positions undefined. Begun batches are
  // run in order; any other batch, or the same batch in another epoch, discards all begun batches.
  status (*run)(engine_handle* self, const batch* what, outcome* out, failure* why) = nullptr;
  void (*destroy)(engine_handle* self) = nullptr;
  // Releases activations that may_be_kept announced: once each, before destroy, from any thread,
  // also during run(). Null: activations are never kept.
  void (*give_back)(engine_handle* self, float* activations) = nullptr;
  // Null unless facts::begun_max is set. Enqueues a batch after the begun ones without waiting.
  // False: run() will start it, with all of its tokens. Errors in the batch are returned by run().
  bool (*begin)(engine_handle* self, const batch* what) = nullptr;
  // Whether run() of the oldest begun batch would have to wait.
  bool (*is_busy)(engine_handle* self) = nullptr;
};

// The only symbol of a library, with C linkage.
inline constexpr const char* entry_point = "baton_engine";
using entry = const table*();

} // namespace baton::plugin
