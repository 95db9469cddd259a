// The line between a shard and an engine that lives in a shared library of its own: plain data and
// functions, the standard library alone. An engine for another accelerator is written against this
// page and docs/engines.md; it needs nothing else of this tree.
//
// What the shard does itself is not asked of an engine: it reads the model's file, cuts it for the
// stage and the rank, turns the weights into 16 or 32 bits, checks every batch, draws the tokens.
// All calls come from one thread at a time, but for table::give_back. Memory that a call hands over
// is the giver's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace baton::plugin {

// Another number: another layout or meaning of what follows. Both sides were built for one number;
// nothing but table::abi is read of a library with another.
inline constexpr std::uint32_t abi_version = 7;

enum class status : std::int32_t {
  ok = 0,
  invalid_value = 1,     // of a setting
  unsupported_model = 2, // a feature that this engine does not compute
  does_not_fit = 3,      // memory of the device or of the machine
  io_failed = 4,         // weights or swap space could not be read or written
  no_device = 5,         // the device, its driver or a library is missing, or of a wrong version
  group_failed = 6,      // a call for the other ranks failed; only another epoch helps
  internal = 7,
  // This process cannot use the device any more (a kernel that trapped, an error of the hardware):
  // every later call would fail too. The shard ends, and its supervisor starts another one.
  device_lost = 8,
};

inline constexpr std::size_t message_bytes_max = 1024;

struct failure {
  char message[message_bytes_max] = {}; // UTF-8, ends with 0
};

enum class element : std::uint32_t { f32 = 0, f16 = 1, bf16 = 2 };
// In which form an engine holds the matrices of the layers; embedding, head, router, norms and
// biases are elements. fp8: e4m3 with a scale for each output. int4: groups of settings::group
// weights along the inputs, each with a step and a minimum. Rows and sums stay settings::weights.
enum class quantization : std::uint32_t { none = 0, fp8 = 1, int4 = 2 };
enum class activation : std::uint32_t { silu = 0, gelu_tanh = 1 };
// Which numbers of a head are rotated together: x[2i] and x[2i+1], or x[i] and x[i + dimensions/2].
enum class rotation : std::uint32_t { pairs = 0, halves = 1 };

struct layer {
  std::uint32_t window = 0;      // positions that a row sees, its own the last; 0: all
  std::uint32_t frequencies = 0; // which of decoder::frequencies rotates it
  bool is_rotated = true;
};

// A stage's part of a decoder, as this rank computes it: its heads, its rows of the ffn and of the
// head. For every row of width hidden_size, with the weights of the enum below:
//   h = embedding[token] * embedding_scale, or what the stage before gave
//   each layer: h += post_attention_norm(attention_out * attend(query, key, value of
//   attention_norm(h)))
//               h += post_ffn_norm(down * (act(gate * x) * (up * x))), x = ffn_norm(h)
//   logits = soft_cap(head * output_norm(h)), soft_cap(x) = cap * tanh(x / cap)
// norm(x) = x / sqrt(mean(x^2) + rms_epsilon) * weight. Queries and keys get their biases, then
// their norm head by head, then the rotation by position * frequency; the product of a query and a
// key is scaled by attention_scale, capped, and softmax is taken over the positions seen.
// A query head shares the keys and values of kv head (its index / (head_count / kv_head_count)).
struct decoder {
  std::uint32_t layer_count = 0;
  const layer* layers = nullptr; // [layer_count]
  std::uint32_t hidden_size = 0, ffn_size = 0;
  std::uint32_t head_count = 0, kv_head_count = 0, head_size = 0;
  std::uint32_t vocabulary_size = 0; // of the whole model: rows of the embedding
  std::uint32_t logit_count = 0;     // rows of the head that this rank has; 0: none
  std::uint32_t first_logit = 0;     // of the whole head's, the first of them
  bool embeds = false;               // stage 0
  bool heads = false;                // last stage
  float rms_epsilon = 0;
  activation act = activation::silu;
  rotation rotates = rotation::pairs;
  std::uint32_t rotated_dimensions = 0;              // the first so many of a head
  const double* frequencies[2] = {nullptr, nullptr}; // [rotated_dimensions / 2], radians
  float embedding_scale = 1, attention_scale = 1;
  float attention_soft_cap = 0, final_soft_cap = 0; // 0: none
  // A mixture, in place of the ffn: the router's scores choose expert_used_count of them, a tie the
  // lower one; softmax over those chosen where normalises_experts, else over all, weighs what they
  // add.
  std::uint32_t expert_count = 0, expert_used_count = 0, expert_ffn_size = 0;
  bool normalises_experts = false;
};

// Matrices are [outputs, inputs] by rows; norms and biases have one row.
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
  count // not a weight
};

struct weight_name {
  weight which = weight::embedding;
  std::uint32_t layer = 0;  // of this stage's, from 0
  std::uint32_t expert = 0; // of gate, up and down in a mixture
};

struct extent {
  std::uint64_t rows = 0, columns = 0;
};

// What an engine may ask of the shard, during create() and run().
struct host {
  void* context = nullptr;
  // The extent of this rank's part; false: the model has no such weight.
  bool (*find)(void* context, weight_name name, extent* out) = nullptr;
  // Rows [first, first + count) of it as elements of that kind. Several threads may call.
  status (*read)(void* context, weight_name name, std::uint64_t first, std::uint64_t count,
                 element as, void* out, failure* why) = nullptr;
  // One line for the log. Any thread.
  void (*say)(void* context, const char* text) = nullptr;
  // Where the stage has other ranks, else null: runtime/collective/collective.hpp, in host memory.
  status (*all_reduce)(void* context, float* values, std::size_t count, failure* why) = nullptr;
  // For an engine that waits for the others in another way: ok while they are there. Does not wait.
  status (*look)(void* context, failure* why) = nullptr;
  // A row of logits: at rank 0 `all` gets those of all ranks, one after the other, and its own may
  // lie there already; elsewhere it is null.
  status (*gather)(void* context, const float* own, std::size_t count, float* all,
                   failure* why) = nullptr;
};

struct settings {
  const char* device = "";        // as in nodes.toml: "cuda:0"
  element weights = element::f32; // and what passes between them; sums are wider
  element kv = element::f16;
  // An engine that has not the one asked for refuses it (invalid_value).
  quantization quantized = quantization::none;
  std::uint32_t group = 128; // of int4: 32 or 128
  bool is_eager = false;     // steps are not recorded to be run again
  std::uint32_t threads = 1;
  std::uint32_t blocks = 0, block_positions = 0; // the KV cache
  std::uint32_t swap_blocks = 0;                 // KV blocks beside it, in memory of the machine
  std::uint32_t rows_max = 0, context_max = 0;
  // Draws of a step as they are expected; there may be up to rows_max. Memory for so many is best
  // taken by create(), so that what does not fit shows there.
  std::uint32_t draws_usual = 0;
  std::uint32_t rank = 0, width = 1;
  std::uint32_t ranks_on_device = 1; // of these `width` ranks, with this one; not every library
                                     // by which ranks meet takes more than one
};

// Consecutive rows of one sequence. Requires, and the shard has checked: what
// runtime/engine/engine.hpp says of a batch.
struct slice {
  std::uint32_t position = 0, rows = 0;
  std::uint32_t draws = 0; // logits are wanted of the last so many rows
  const std::uint32_t* blocks = nullptr;
  std::uint32_t block_count = 0;
  bool is_pooled = false; // its rows are wanted behind the output norm, and it draws nothing
};

struct copy {
  std::uint32_t block = 0, swap_block = 0;
  bool is_out = false; // else back in
};

struct logit_bias {
  std::int32_t token = 0;
  float bias = 0;
};

struct token_count {
  std::int32_t token = 0;
  std::uint32_t in_prompt = 0, in_output = 0;
};

// How a row's token is drawn: runtime/engine/sampler.hpp, whose contract is the token that comes.
struct draw {
  std::uint32_t token_index = 0;
  std::uint32_t top_k = 0; // 0: off
  std::uint64_t seed = 0;
  float temperature = 1, top_p = 1, min_p = 0;
  float repetition_penalty = 1, presence_penalty = 0, frequency_penalty = 0;
  // Of the batch's lists, those of this draw. No token is twice in its history.
  std::uint32_t first_bias = 0, bias_count = 0;
  std::uint32_t first_banned = 0, banned_count = 0;
  std::uint32_t first_history = 0, history_count = 0;
};

// Lists of all draws of a batch, one draw's behind the other's.
struct draw_lists {
  const draw* draws = nullptr; // [batch::draws]; null: logits are wanted
  const logit_bias* biases = nullptr;
  const std::int32_t* banned = nullptr; // tokens that may not come
  const token_count* history = nullptr;
  std::uint32_t bias_count = 0, banned_count = 0, history_count = 0;
};

// A row whose token is what a draw of the batch that was begun last finds. Where that finds none,
// the row's token is any: nobody looks at what comes of it.
struct feed {
  std::uint32_t row = 0, draw = 0;
};

struct batch {
  std::uint64_t number = 0, epoch = 0; // in another epoch the ranks begin anew
  const slice* slices = nullptr;
  std::uint32_t slice_count = 0;
  std::uint32_t rows = 0;
  std::uint32_t draws = 0;
  const std::int32_t* tokens = nullptr; // [rows]; those that are fed are negative
  const float* activations = nullptr;   // [rows, hidden_size]; null into stage 0
  const copy* copies = nullptr;         // made in this order, before the rows
  std::uint32_t copy_count = 0;
  draw_lists how; // of the last stage, where nothing but tokens is asked for
  // Of a batch that is begun, into a stage that is first and last. Behind draws that the engine was
  // told how to draw, and of rows whose draws hang on no token before them.
  const feed* feeds = nullptr;
  std::uint32_t feed_count = 0;
};

// Valid until the next call of run() or begin().
struct outcome {
  // [draws], from an engine that draws by itself where the batch says how; -1: from nothing but
  // -infinity, or from what is no number. Else null, and logits are given.
  const std::int32_t* tokens = nullptr;
  float* activations = nullptr; // [rows, hidden_size]; null on the last stage
  // They stay as they are until they are given back, so that they leave the machine without a copy.
  // Else they are gone with the next run. Only of an engine that has table::give_back.
  bool may_be_kept = false;
  float* logits =
      nullptr; // [draws, vocabulary_size] at rank 0 of the last stage; may be written to
  // [rows of the slices that are pooled, hidden_size], in their order and behind the output norm,
  // at rank 0 of the last stage.
  const float* states = nullptr;
};

struct facts {
  char device[128] = {}; // "cuda:0 NVIDIA H200, bf16": for people
  // Whether a row's bits are the same whatever its company and chunks. If not, they are near: an
  // engine says in its documentation how near.
  bool is_exact = false;
  bool gives_states = false;   // outcome::states; else no slice of a last stage is pooled
  std::uint32_t begun_max = 0; // batches that may be begun and not run yet
  // By what ranks meet, where it is not the host's: "NCCL 2.28.9 (/usr/lib/libnccl.so.2)".
  char ranks_meet_by[512] = {};
};

// One engine of a library.
using engine_handle = void;

struct table {
  std::uint32_t abi = abi_version; // first, in all versions
  const char* name = "";           // "torch"
  // Whether the device is there and everything it needs. Loads no weights.
  status (*check)(const settings* with, facts* out, failure* why) = nullptr;
  status (*create)(const decoder* what, const settings* with, const host* shard,
                   engine_handle** out, failure* why) = nullptr;
  // Makes the copies, then runs the rows: reads KV only in the blocks that the slices name, writes
  // only at the positions of the rows. After a failure what the positions of the rows hold is
  // undefined, and nothing else. What was begun comes in its order; another batch, or the same in
  // another epoch, forgets all that was begun.
  status (*run)(engine_handle* self, const batch* what, outcome* out, failure* why) = nullptr;
  void (*destroy)(engine_handle* self) = nullptr;
  // Activations that might be kept are not needed any more: once each, ahead of destroy, by any
  // thread, also while run() runs. Null: none may be kept.
  void (*give_back)(engine_handle* self, float* activations) = nullptr;
  // Of an engine whose facts say begun_max, else null. Begins a batch behind those that are begun,
  // and waits for nothing; false: it will be begun by run(), with all of its tokens. What is wrong
  // with it is told by run().
  bool (*begin)(engine_handle* self, const batch* what) = nullptr;
  // Whether run() of what was begun first would have to wait.
  bool (*is_busy)(engine_handle* self) = nullptr;
};

// The one symbol of a library, with C linkage.
inline constexpr const char* entry_point = "baton_engine";
using entry = const table*();

} // namespace baton::plugin
