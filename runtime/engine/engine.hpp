// The engine interface: what a shard runs. One engine holds one stage's layers of one model and its
// part of the paged KV memory. Engines: toy (tests), cpu (native), torch (plugin). Engines use no
// actors, sockets or clocks.
#pragma once

#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <span>
#include <string>
#include <vector>

namespace baton::engine {

struct capacity {
  std::uint32_t blocks = 0;          // KV blocks that fit
  std::uint32_t block_positions = 0; // positions per block
  std::uint32_t swap_blocks = 0;     // blocks of swap space, lost when the process ends
  // Recurrent states that fit, 2 at least; 0: the model has none. A stage without recurrent layers
  // of a model that has some reports any number.
  std::uint32_t state_slots = 0;
  std::uint32_t rows_max = 0;    // rows of one micro_batch
  std::uint32_t hidden_size = 0; // width of an activation row
  std::uint32_t vocabulary_size = 0;
  std::uint32_t max_model_len = 0;
  std::uint64_t model_hash = 0;     // equal for all stages of one model file
  std::uint64_t kv_incarnation = 0; // identifies the KV contents; 0: lost when the process ends
  std::string device;               // "cpu:0 avx512-vnni, 1 thread"
  bool pools = false;               // accepts batches with pools; the last stage returns embeddings
  bool scores = false;              // computes prompt logprobs
};

struct step_output {
  // [rows, hidden] float32, valid until the next call, or as long as `owner`. Empty on the last
  // stage.
  std::span<const float> activations;
  // One per draw, in order; only on the last stage.
  std::vector<sample> samples;
  // One per pool, in order; only on the last stage.
  std::vector<baton::pooled> pooled{};
  // Keeps `activations` valid while it is held; null: valid until the next call.
  std::shared_ptr<const void> owner{};
};

class engine {
public:
  virtual ~engine() = default;

  virtual const capacity& limits() const noexcept = 0;

  // Copies the blocks that `batch` lists, then runs this stage over its rows. Reads and writes KV
  // only in the blocks that the slices name, and writes only at the rows' positions. A recurrent
  // layer reads `state_from` and writes `state_to` alone. Behind a failed step a batch may read KV
  // and states that were never written; its results are not used. `activations` is [rows, hidden]
  // float32 from the previous stage; empty for stage 0. A row's result depends only on its own
  // sequence: the same bits come out whatever else is batched and however the prompt is chunked.
  // Not thread-safe. Errors: invalid_value (the batch contradicts the limits), io_failed (swap
  // space), internal.
  virtual result<step_output> run(const micro_batch& batch, std::span<const float> activations) = 0;

  // Enqueues a batch before run() on an engine with an asynchronous device; returns whether it did.
  // Does not wait. run() of the batches in that order returns their results; run() of any other
  // batch discards them all. A batch is begun at most once and need not be run. Its errors come
  // from run(). `batch` and `activations` are not kept. Tokens may be placeholders for draws of the
  // batch begun last (batch::feeds); run() gets all tokens.
  virtual bool begin(const micro_batch& /*batch*/, std::span<const float> /*activations*/) {
    return false;
  }
  // How many batches may be begun and not yet run; 0: the engine only works inside run().
  virtual std::uint32_t begun_max() const noexcept { return 0; }
  // Whether run() of the oldest begun batch would have to wait.
  virtual bool is_busy() { return false; }
  // Discards all begun batches. Optional: run() of another batch has the same effect.
  virtual void forget_begun() {}
};

// Checks a batch against the limits before any memory is touched: Counts agree, ids and blocks are
// in range, slices cover the tokens, draws match, pools are complete and their slices draw nothing.
// Every engine calls it first. Errors: invalid_value, unsupported_parameter (pools or scores on an
// engine without them). `may_be_fed`: tokens may be placeholders.
result<void> validate(const micro_batch& batch, std::span<const float> activations,
                      const capacity& limits, bool is_first_stage, bool may_be_fed = false);

} // namespace baton::engine
