// The engine seam: what a shard runs. One engine holds one stage's layers of one model and its part
// of the paged KV memory. Engines: toy (tests), cpu (native), torch (plugin). No actors, no
// sockets, no clock behind this line.
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
  std::uint32_t swap_blocks = 0;     // blocks of swap space; they go with the process
  std::uint32_t rows_max = 0;        // rows of one micro_batch
  std::uint32_t hidden_size = 0;     // width of an activation row
  std::uint32_t vocabulary_size = 0;
  std::uint32_t context_max = 0;
  std::uint64_t model_hash = 0; // equal for all stages of one model file
  std::uint64_t kv_life = 0;    // which KV contents these are; 0: they go with the process
  std::string device;           // "cpu:0 avx512-vnni, 1 thread"
  bool pools = false;           // runs batches with pools; on the last stage it makes embeddings
  bool scores = false;          // and tells how likely a prompt's tokens are
};

struct step_output {
  // [rows, hidden] float32, valid until the next call or as `owner` says; empty on the last stage.
  std::span<const float> activations;
  // One per draw, in order; only on the last stage.
  std::vector<sample> samples;
  // One per pool, in order; only on the last stage.
  std::vector<baton::pooled> pooled{};
  // Whoever holds it has `activations` for as long; null: they are gone with the next call.
  std::shared_ptr<const void> owner{};
};

class engine {
public:
  virtual ~engine() = default;

  virtual const capacity& limits() const noexcept = 0;

  // Makes the copies of `batch`, then runs this stage over its rows: reads and writes KV only in
  // the blocks that the slices name, only writes at the positions of the rows. `activations` is
  // [rows, hidden] float32 from the stage before; empty into stage 0. A row's result depends on
  // nothing but its own sequence: redoing a step, or running its rows in other company or other
  // chunks, gives the same bits. Not thread-safe; called by one thread at a time. Errors:
  // invalid_value (a field of the batch contradicts the limits), io_failed (swap space), internal.
  virtual result<step_output> run(const micro_batch& batch, std::span<const float> activations) = 0;

  // Ahead of run(), whether the batch was begun: an engine whose device works by itself begins it
  // behind those that it has begun before, and waits for nothing. run() of the batches in that
  // order gives their outcomes; run() of any other forgets all of them. A batch is begun once; one
  // that is begun need not be run; what is wrong with it is told by run(). `batch` and
  // `activations` need not stay. Tokens may be to come, of draws of the batch that was begun last
  // (batch::feeds); run() gets them all.
  virtual bool begin(const micro_batch& /*batch*/, std::span<const float> /*activations*/) {
    return false;
  }
  // How many may be begun and not run yet; 0: this engine works while run() waits for it.
  virtual std::uint32_t begun_max() const noexcept { return 0; }
  // Whether run() of the one that was begun first would have to wait.
  virtual bool is_busy() { return false; }
  // Nobody will run what was begun. An engine may as well notice when another batch is run.
  virtual void forget_begun() {}
};

// Checks a batch against the limits before any memory is touched: counts agree, ids and blocks are
// in range, slices cover the tokens, draws match, pools are of slices that draw nothing and bring
// what is needed. Called by every engine first. Errors: invalid_value, unsupported_parameter
// (pools or scores, for an engine that has none).
// `may_be_fed`: tokens may be to come.
result<void> validate(const micro_batch& batch, std::span<const float> activations,
                      const capacity& limits, bool is_first_stage, bool may_be_fed = false);

} // namespace baton::engine
